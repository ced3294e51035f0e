package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// offer is how the cloud treats launches of one instance type, capacity type and zone; an empty field means any.
type offer struct {
	InstanceType string `json:"instanceType"`
	CapacityType string `json:"capacityType"`
	Zone         string `json:"zone"`
	// Stock is how many such instances may run at a time; absent: any number.
	Stock *int `json:"stock"`
	// Error refuses every launch: for want of capacity, or with the condition's reason where Reason is given.
	Error  string `json:"error"`
	Reason string `json:"reason"`
	// NotReady refuses every launch because the node class is not ready.
	NotReady string `json:"notReady"`
	// LaunchSeconds pass before an instance is there; AnswerSeconds pass then, until the cloud says so.
	LaunchSeconds float64 `json:"launchSeconds"`
	AnswerSeconds float64 `json:"answerSeconds"`
	// StartSeconds pass from an instance's launch until it becomes a Node, in turn; a second where this is empty.
	StartSeconds []float64 `json:"startSeconds"`
}

// behaviour is the content of the file that CLOUD_FILE names.
type behaviour struct {
	Offers []offer `json:"offers"`
	// AdvancedSeconds is how far Karpenter's clock is ahead; WaitedSeconds how much longer ago all is than it was.
	AdvancedSeconds float64 `json:"advancedSeconds"`
	WaitedSeconds   float64 `json:"waitedSeconds"`
}

func read() behaviour {
	var told behaviour
	content, err := os.ReadFile(os.Getenv("CLOUD_FILE"))
	if err == nil {
		err = json.Unmarshal(content, &told)
	}
	if err != nil {
		log.Log.Error(err, "the file of the cloud's behaviour cannot be read")
	}
	return told
}

// line is a line of the bill: an instance was launched, or has ended. Times are microseconds since 1970.
type line struct {
	Instance string `json:"instance"`
	Claim    string `json:"claim"`
	Offer    string `json:"offer,omitempty"`
	Launched int64  `json:"launched,omitempty"`
	Ended    int64  `json:"ended,omitempty"`
}

// startSeconds is the annotation of Nodes that says how long they take to start.
const startSeconds = "testbed.charterer.dev/start-seconds"

// starting makes Nodes when their machines have started.
type starting struct{ client.Client }

func (s starting) Create(ctx context.Context, made client.Object, options ...client.CreateOption) error {
	if seconds, err := strconv.ParseFloat(made.GetAnnotations()[startSeconds], 64); err == nil {
		pause(seconds)
	}
	return s.Client.Create(ctx, made, options...)
}

// rememberedFull is how long Karpenter does not try an offering again that was out of stock, as its AWS provider does.
const rememberedFull = 3 * time.Minute

type cloud struct {
	*kwok.CloudProvider
	nodes client.Client
	clock clock.Clock
	mu    sync.Mutex
	// live has the offer of each instance that runs, full the time at which an offer was out of stock.
	live map[string]string
	full map[string]time.Time
	// launched counts the launches of each offer.
	launched map[string]int
}

func newCloud(ctx context.Context, inner *kwok.CloudProvider, nodes client.Client, clock clock.Clock) *cloud {
	made := &cloud{
		CloudProvider: inner, nodes: nodes, clock: clock,
		live: map[string]string{}, full: map[string]time.Time{}, launched: map[string]int{},
	}
	bill, err := os.Open(os.Getenv("BILL_FILE"))
	if err != nil {
		return made
	}
	defer bill.Close()
	for lines := bufio.NewScanner(bill); lines.Scan(); {
		var told line
		if json.Unmarshal(lines.Bytes(), &told) == nil {
			made.keep(told)
		}
	}
	return made
}

func (c *cloud) keep(told line) {
	if told.Ended == 0 {
		c.live[told.Instance] = told.Offer
	} else {
		delete(c.live, told.Instance)
	}
}

func (c *cloud) tell(told line) {
	c.keep(told)
	content, err := json.Marshal(told)
	if err == nil {
		var bill *os.File
		bill, err = os.OpenFile(os.Getenv("BILL_FILE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = bill.Write(append(content, '\n'))
			err = errors.Join(err, bill.Close())
		}
	}
	if err != nil {
		log.Log.Error(err, "the bill cannot be written")
	}
}

// choice is an offering that a claim may be served by.
type choice struct {
	kind, capacity, zone string
	price                float64
}

func (c choice) name() string { return c.kind + "/" + c.capacity + "/" + c.zone }

func chosen(kind *cloudprovider.InstanceType, offering *cloudprovider.Offering) choice {
	return choice{
		kind.Name,
		offering.Requirements.Get(v1.CapacityTypeLabelKey).Any(),
		offering.Requirements.Get(corev1.LabelTopologyZone).Any(),
		offering.Price,
	}
}

// choices are the claim's offerings, the cheapest first.
func (c *cloud) choices(ctx context.Context, claim *v1.NodeClaim) ([]choice, error) {
	wanted := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	kinds, err := c.CloudProvider.GetInstanceTypes(ctx, nil)
	var found []choice
	for _, kind := range kinds {
		if wanted.Get(corev1.LabelInstanceTypeStable).Has(kind.Name) {
			for _, offering := range kind.Offerings.Compatible(wanted) {
				found = append(found, chosen(kind, offering))
			}
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].price < found[j].price })
	return found, err
}

// offered is what the cloud's file says of launches of the choice.
func offered(c choice) offer {
	for _, told := range read().Offers {
		if (told.InstanceType == "" || told.InstanceType == c.kind) && (told.CapacityType == "" || told.CapacityType == c.capacity) &&
			(told.Zone == "" || told.Zone == c.zone) {
			return told
		}
	}
	return offer{}
}

func pause(seconds float64) { time.Sleep(span(seconds)) }

// Create launches the cheapest instance that the claim allows and the cloud's file does not refuse.
func (c *cloud) Create(ctx context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	choices, err := c.choices(ctx, claim)
	if err != nil || len(choices) == 0 {
		return nil, errors.Join(fmt.Errorf("the cloud sells nothing that claim %s allows", claim.Name), err)
	}
	var refused []string
	for _, choice := range choices {
		told := offered(choice)
		pause(told.LaunchSeconds)
		switch {
		case told.NotReady != "":
			return nil, cloudprovider.NewNodeClassNotReadyError(errors.New(told.NotReady))
		case told.Error != "" && told.Reason != "":
			return nil, cloudprovider.NewCreateError(errors.New(told.Error), told.Reason, told.Error)
		case told.Error != "":
			refused = append(refused, told.Error)
			continue
		}
		made, err := c.launch(ctx, claim, choice, told)
		if made != nil || err != nil {
			pause(told.AnswerSeconds)
			return made, err
		}
		refused = append(refused, fmt.Sprintf(
			"InsufficientInstanceCapacity: We currently do not have sufficient %s capacity in zone %s", choice.kind, choice.zone))
	}
	return nil, cloudprovider.NewInsufficientCapacityError(fmt.Errorf("with fleet error(s), %s", strings.Join(refused, "; ")))
}

// launch makes an instance; nothing, where the choice is out of stock.
func (c *cloud) launch(ctx context.Context, claim *v1.NodeClaim, choice choice, told offer) (*v1.NodeClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	running := 0
	for _, of := range c.live {
		if of == choice.name() {
			running++
		}
	}
	if told.Stock != nil && running >= *told.Stock {
		c.full[choice.name()] = c.clock.Now()
		return nil, nil
	}
	asked := claim.DeepCopy()
	asked.Spec.Requirements = narrowed(claim.Spec.Requirements, map[string]string{
		corev1.LabelInstanceTypeStable: choice.kind,
		v1.CapacityTypeLabelKey:        choice.capacity,
		corev1.LabelTopologyZone:       choice.zone,
	})
	start := 1.0
	if starts := told.StartSeconds; len(starts) > 0 {
		start = starts[c.launched[choice.name()]%len(starts)]
	}
	metav1.SetMetaDataAnnotation(&asked.ObjectMeta, startSeconds, strconv.FormatFloat(start, 'f', -1, 64))
	made, err := c.CloudProvider.Create(ctx, asked)
	if err == nil {
		c.launched[choice.name()]++
		c.tell(line{Instance: made.Status.ProviderID, Claim: claim.Name, Offer: choice.name(), Launched: time.Now().UnixMicro()})
	}
	return made, err
}

// narrowed are the requirements with only these values of these keys.
func narrowed(of []v1.NodeSelectorRequirementWithMinValues, values map[string]string) []v1.NodeSelectorRequirementWithMinValues {
	var kept []v1.NodeSelectorRequirementWithMinValues
	for _, requirement := range of {
		if _, known := values[requirement.Key]; !known {
			kept = append(kept, requirement)
		}
	}
	for key, value := range values {
		kept = append(kept, v1.NodeSelectorRequirementWithMinValues{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
		})
	}
	return kept
}

// GetInstanceTypes says also what was out of stock a moment ago.
func (c *cloud) GetInstanceTypes(ctx context.Context, pool *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	kinds, err := c.CloudProvider.GetInstanceTypes(ctx, pool)
	c.mu.Lock()
	defer c.mu.Unlock()
	told := make([]*cloudprovider.InstanceType, len(kinds))
	for i, kind := range kinds {
		told[i] = &cloudprovider.InstanceType{
			Name: kind.Name, Requirements: kind.Requirements, Capacity: kind.Capacity, Overhead: kind.Overhead,
		}
		for _, offering := range kind.Offerings {
			now := *offering
			since, known := c.full[chosen(kind, offering).name()]
			now.Available = offering.Available && !(known && c.clock.Since(since) < rememberedFull)
			told[i].Offerings = append(told[i].Offerings, &now)
		}
	}
	return told, err
}

// Delete ends the claim's instance at once.
func (c *cloud) Delete(ctx context.Context, claim *v1.NodeClaim) error {
	instance := claim.Status.ProviderID
	c.mu.Lock()
	if _, runs := c.live[instance]; runs {
		c.tell(line{Instance: instance, Claim: claim.Name, Ended: time.Now().UnixMicro()})
	}
	c.mu.Unlock()
	go c.forget(context.WithoutCancel(ctx), instance)
	return cloudprovider.NewNodeClaimNotFoundError(errors.New("the instance has ended"))
}

// forget deletes the Node that the kwok provider makes some time after the launch, also when the instance has ended.
func (c *cloud) forget(ctx context.Context, instance string) {
	for range 20 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: instance[len("kwok://"):]}}
		if c.nodes.Delete(ctx, node) == nil {
			return
		}
		pause(0.2)
	}
}
