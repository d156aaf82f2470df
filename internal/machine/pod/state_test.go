package pod

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"plasmacloud.io/plasmacloud/internal/machine"
)

func waitingFor(reason, message string, restarts int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		run(pod)
		pod.Status.Phase = corev1.PodPending
		pod.Status.ContainerStatuses[0] = corev1.ContainerStatus{
			RestartCount:         restarts,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, Message: "k8shost: prepare machine: lay files: no room\n"}},
		}
	}
}

func TestStates(t *testing.T) {
	for name, c := range map[string]struct {
		deal    func(*corev1.Pod)
		state   machine.State
		message string // a part of it
		address bool
	}{
		"running":       {run, machine.StateRunning, "", true},
		"no address":    {func(p *corev1.Pod) { run(p); p.Status.PodIP = "" }, machine.StatePending, "being made", false},
		"undecided":     {func(*corev1.Pod) {}, machine.StatePending, "being made", false},
		"unplaced":      {refuse, machine.StatePending, "Insufficient memory", false},
		"creating":      {waitingFor("ContainerCreating", "", 0), machine.StatePending, "being made", false},
		"never pulled":  {waitingFor("ErrImageNeverPull", "not present", 0), machine.StateFailed, "image example.com/node:v1 is not on node host", false},
		"pull failed":   {waitingFor("ImagePullBackOff", "dial tcp", 0), machine.StateFailed, "images import", false},
		"crashing":      {waitingFor("CrashLoopBackOff", "", 1), machine.StatePending, "lay files: no room", false},
		"crashes often": {waitingFor("CrashLoopBackOff", "", 7), machine.StateFailed, "started 8 times: Error, exit code 1: k8shost", false},
		"cannot start":  {waitingFor("CreateContainerError", "too busy", 0), machine.StatePending, "too busy", false},
		"evicted": {func(p *corev1.Pod) {
			run(p)
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", `Usage of EmptyDir volume "disk" exceeds the limit "20Gi".`
		}, machine.StateFailed, `Evicted: Usage of EmptyDir volume "disk"`, false},
		"ended": {func(p *corev1.Pod) { run(p); p.Status.Phase = corev1.PodSucceeded }, machine.StateFailed, "has ended", false},
		"deleting": {func(p *corev1.Pod) { run(p); p.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
			machine.StateDeleting, "shuts down", true},
	} {
		pod, _, err := newDriver(fake.NewClientset()).describe(newSpec("m0"))
		if err != nil {
			t.Fatal(err)
		}
		c.deal(pod)
		got := show(pod)
		if got.State != c.state || !strings.Contains(got.Message, c.message) || (got.Address != "") != c.address {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestNamesOfPodsHoldTheCluster(t *testing.T) {
	for name, want := range map[string]string{"m0": "dev-m0", "dev-workers-x": "dev-workers-x", "devil": "dev-devil"} {
		if got := Name(machine.Key{Namespace: "infra", Cluster: "dev", Name: name}); got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
}

func TestAnotherClustersMachineIsNotOurs(t *testing.T) {
	driver := newDriver(newCluster(run))
	other := newSpec("dev-a-m0")
	other.Key.Cluster = "dev-a"
	if _, err := driver.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	ours := newSpec("dev-a-m0")
	if _, err := driver.Get(t.Context(), ours.Key); err == nil {
		t.Error("found")
	}
	if err := driver.Delete(t.Context(), ours.Key); err != nil {
		t.Error(err)
	}
	if _, err := driver.Get(t.Context(), other.Key); err != nil {
		t.Errorf("the other one is gone: %v", err)
	}
}

func TestAMachineOnALostHostIsStruckOff(t *testing.T) {
	client := newCluster(run)
	clk := clocktesting.NewFakePassiveClock(time.Now()) // the machine started long ago
	driver := New(client, clk, Config{Image: "example.com/node:v1"})
	spec := newSpec("m0")
	if _, err := driver.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	var graces []*int64
	client.PrependReactor("delete", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		deletion, _ := action.(clienttesting.DeleteActionImpl)
		graces = append(graces, deletion.DeleteOptions.GracePeriodSeconds)
		pods := corev1.SchemeGroupVersion.WithResource("pods")
		found, err := client.Tracker().Get(pods, "infra", "dev-m0")
		if err != nil {
			return true, nil, err
		}
		pod, _ := found.DeepCopyObject().(*corev1.Pod)
		pod.DeletionTimestamp = &metav1.Time{Time: clk.Now().Add(stopSeconds * time.Second)}
		return true, nil, client.Tracker().Update(pods, pod, "infra")
	})
	for range 2 {
		if err := driver.Delete(t.Context(), spec.Key); err != nil {
			t.Fatal(err)
		}
	}
	if len(graces) != 1 || graces[0] != nil {
		t.Fatalf("deletions %v", graces)
	}
	clk.SetTime(clk.Now().Add(stopSeconds*time.Second + lostAfter))
	if err := driver.Delete(t.Context(), spec.Key); err != nil {
		t.Fatal(err)
	}
	if len(graces) != 2 || graces[1] == nil || *graces[1] != 0 {
		t.Errorf("deletions %v", graces)
	}
}

func TestAYoungMachineIsCutOffSooner(t *testing.T) {
	now := time.Now()
	driver := New(newCluster(run), clocktesting.NewFakePassiveClock(now), Config{Image: "example.com/node:v1"})
	for name, c := range map[string]struct {
		deal func(*corev1.Pod)
		want bool
	}{
		"not started": {func(*corev1.Pod) {}, false},
		"waiting":     {waitingFor("ContainerCreating", "", 0), false},
		"young":       {started(now.Add(-time.Second), 0), false},
		"old":         {started(now.Add(-time.Minute), 0), true},
		"restarted":   {started(now.Add(-time.Second), 1), true},
	} {
		pod := &corev1.Pod{}
		c.deal(pod)
		if got := driver.booted(pod); got != c.want {
			t.Errorf("%s: booted %v", name, got)
		}
	}
}

func started(at time.Time, restarts int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		run(pod)
		pod.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.Time{Time: at}
		pod.Status.ContainerStatuses[0].RestartCount = restarts
	}
}

func TestChangesAreTold(t *testing.T) {
	client := newCluster(run)
	driver := newDriver(client)
	ctx, stop := context.WithCancel(t.Context())
	told, ended := make(chan machine.Key, 100), make(chan error, 1)
	go func() { ended <- driver.Notify(ctx, func(key machine.Key) { told <- key }) }()
	spec := newSpec("m0")
	if _, err := driver.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	await := func(what string) {
		t.Helper()
		select {
		case key := <-told:
			if key != spec.Key {
				t.Errorf("%s: %s", what, key)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: not told", what)
		}
	}
	await("created")
	pod, err := client.CoreV1().Pods("infra").Get(t.Context(), "dev-m0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitingFor("CrashLoopBackOff", "", 1)(pod)
	if _, err := client.CoreV1().Pods("infra").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	await("crashed")
	if err := driver.Delete(t.Context(), spec.Key); err != nil {
		t.Fatal(err)
	}
	await("deleted")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
