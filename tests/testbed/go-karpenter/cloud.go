package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	// Silent instances never become Nodes.
	Silent bool `json:"silent"`
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

// movedClock is ahead of the real one by what the cloud's file says.
type movedClock struct{ clock.RealClock }

func (c movedClock) Now() time.Time { return time.Now().Add(span(read().AdvancedSeconds)) }

func (c movedClock) Since(t time.Time) time.Duration {
	return c.Now().Sub(t) + span(read().WaitedSeconds)
}

func span(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// line is a line of the bill: an instance was launched, or has ended. Times are microseconds since 1970.
type line struct {
	Instance string `json:"instance"`
	Claim    string `json:"claim"`
	Offer    string `json:"offer,omitempty"`
	Launched int64  `json:"launched,omitempty"`
	Ended    int64  `json:"ended,omitempty"`
}

type cloud struct {
	*kwok.CloudProvider
	nodes client.Client
	mu    sync.Mutex
	// live has the offer of each instance that runs.
	live map[string]string
}

func newCloud(ctx context.Context, inner *kwok.CloudProvider, nodes client.Client) *cloud {
	made := &cloud{CloudProvider: inner, nodes: nodes, live: map[string]string{}}
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

func required(claim *v1.NodeClaim, key string) string {
	for _, requirement := range claim.Spec.Requirements {
		if requirement.Key == key && len(requirement.Values) == 1 {
			return requirement.Values[0]
		}
	}
	return ""
}

// offered is what the cloud's file says of the claim's launch, and the offer's name.
func offered(claim *v1.NodeClaim) (offer, string) {
	kind := required(claim, corev1.LabelInstanceTypeStable)
	capacity := required(claim, v1.CapacityTypeLabelKey)
	zone := required(claim, corev1.LabelTopologyZone)
	for _, told := range read().Offers {
		if (told.InstanceType == "" || told.InstanceType == kind) && (told.CapacityType == "" || told.CapacityType == capacity) &&
			(told.Zone == "" || told.Zone == zone) {
			return told, kind + "/" + capacity + "/" + zone
		}
	}
	return offer{}, kind + "/" + capacity + "/" + zone
}

func pause(seconds float64) { time.Sleep(span(seconds)) }

// Create launches an instance as the cloud's file says.
func (c *cloud) Create(ctx context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	told, name := offered(claim)
	pause(told.LaunchSeconds)
	switch {
	case told.NotReady != "":
		return nil, cloudprovider.NewNodeClassNotReadyError(errors.New(told.NotReady))
	case told.Error != "" && told.Reason != "":
		return nil, cloudprovider.NewCreateError(errors.New(told.Error), told.Reason, told.Error)
	case told.Error != "":
		return nil, cloudprovider.NewInsufficientCapacityError(fmt.Errorf("with fleet error(s), %s", told.Error))
	}
	c.mu.Lock()
	running := 0
	for _, of := range c.live {
		if of == name {
			running++
		}
	}
	if told.Stock != nil && running >= *told.Stock {
		c.mu.Unlock()
		return nil, cloudprovider.NewInsufficientCapacityError(fmt.Errorf(
			"with fleet error(s), InsufficientInstanceCapacity: We currently do not have sufficient %s capacity in zone %s",
			required(claim, corev1.LabelInstanceTypeStable), required(claim, corev1.LabelTopologyZone)))
	}
	asked := claim
	if told.Silent {
		asked = claim.DeepCopy()
		asked.Spec.NodeClassRef.Name = "silent"
	}
	made, err := c.CloudProvider.Create(ctx, asked)
	if err == nil {
		c.tell(line{Instance: made.Status.ProviderID, Claim: claim.Name, Offer: name, Launched: time.Now().UnixMicro()})
	}
	c.mu.Unlock()
	pause(told.AnswerSeconds)
	return made, err
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
