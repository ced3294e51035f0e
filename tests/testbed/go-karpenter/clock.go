package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/awslabs/operatorpkg/reconciler"
	"github.com/awslabs/operatorpkg/singleton"
	"k8s.io/utils/clock"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
)

// movedClock is ahead of the real clock by what the cloud's file says. All that is reckoned from its times runs pace times
// as fast: how long ago something was, and waits.
type movedClock struct {
	clock.RealClock
	pace float64
}

func newClock() (movedClock, error) {
	pace, err := strconv.ParseFloat(os.Getenv("PACE"), 64)
	if err == nil && pace < 1 {
		err = fmt.Errorf("PACE is %v and has to be at least 1", pace)
	}
	return movedClock{pace: pace}, err
}

func (c movedClock) Now() time.Time { return time.Now().Add(span(read().AdvancedSeconds)) }

func (c movedClock) Since(t time.Time) time.Duration {
	return time.Duration(float64(c.Now().Sub(t))*c.pace) + span(read().WaitedSeconds)
}

func (c movedClock) After(d time.Duration) <-chan time.Time { return c.RealClock.After(c.real(d)) }

func (c movedClock) Sleep(d time.Duration) { c.RealClock.Sleep(c.real(d)) }

// real is the time that passes while d passes on this clock.
func (c movedClock) real(d time.Duration) time.Duration { return time.Duration(float64(d) / c.pace) }

func span(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// paced is Karpenter's controller of consolidation, which looks at the cluster every ten seconds of this clock.
type paced struct {
	*disruption.Controller
	clock movedClock
}

func (p paced) Register(_ context.Context, m manager.Manager) error {
	return controllerruntime.NewControllerManagedBy(m).
		Named(p.Name()).
		WatchesRawSource(singleton.Source()).
		Complete(singleton.AsReconciler(p))
}

func (p paced) Reconcile(ctx context.Context) (reconciler.Result, error) {
	result, err := p.Controller.Reconcile(ctx)
	if result.RequeueAfter > 0 {
		result.RequeueAfter = max(p.clock.real(result.RequeueAfter), singleton.RequeueImmediately)
	}
	return result, err
}
