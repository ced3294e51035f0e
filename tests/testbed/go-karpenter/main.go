// Karpenter with its kwok provider, whose cloud can run out of stock, refuse, be slow, and tell what it billed.
//
// Everything of Karpenter is as its authors released it; only the cloud behind it is ours. The file that CLOUD_FILE
// names says how the cloud behaves (see behaviour) and is read again at every call. To the file that BILL_FILE names a
// line of JSON is added when an instance is launched and when it has ended. Karpenter's waits are PACE times
// shorter than they say (see clock.go).
package main

import (
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/node/health"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"

	corev1 "k8s.io/api/core/v1"
)

func main() {
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "no instance types")
		os.Exit(1)
	}
	tellPrices(types)
	time, err := newClock()
	if err != nil {
		log.FromContext(ctx).Error(err, "no clock")
		os.Exit(1)
	}
	provider := newCloud(ctx, kwok.NewCloudProvider(ctx, starting{op.GetClient()}, types), op.GetClient(), time)
	repairs, err := health.NewRepairPolicyMatcher(ctx, provider)
	if err != nil {
		log.FromContext(ctx).Error(err, "no policies of repair")
		os.Exit(1)
	}
	cluster := state.NewCluster(time, op.GetClient(), provider, state.WithRepairPolicyMatcher(repairs))
	all := controllers.NewControllers(
		ctx, op.Manager, time, op.GetClient(), op.EventRecorder, provider, provider, cluster, op.InstanceTypeStore,
		op.PredictionStore,
	)
	for i, controller := range all {
		if found, is := controller.(*disruption.Controller); is {
			all[i] = paced{found, time}
		}
	}
	op.WithControllers(ctx, all...).Start(ctx)
}

// tellPrices serves the metric that the AWS provider has and the kwok provider lacks, under its name and labels.
func tellPrices(types []*cloudprovider.InstanceType) {
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "karpenter_cloudprovider_instance_type_offering_price_estimate",
		Help: "Price of an offering in dollars an hour.",
	}, []string{"instance_type", "capacity_type", "zone"})
	metrics.Registry.MustRegister(gauge)
	for _, kind := range types {
		for _, offering := range kind.Offerings {
			capacity := offering.Requirements.Get(v1.CapacityTypeLabelKey).Any()
			zone := offering.Requirements.Get(corev1.LabelTopologyZone).Any()
			gauge.WithLabelValues(kind.Name, capacity, zone).Set(offering.Price)
		}
	}
}

var _ cloudprovider.CloudProvider = (*cloud)(nil)
