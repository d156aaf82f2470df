package cni_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/network/netlab"
)

// A plugin that is killed at any moment leaves nothing that the next ADD or DEL
// does not repair.
func TestKilledAtAnyMoment(t *testing.T) {
	runtime, outside := newRuntime(t)
	ports := netlab.Ports(port("tcp", 8080, 80))
	calm := runtime.Start(t, "calm", nil)
	runtime.Node.ServeTCP(":10250")
	warm := runtime.Start(t, "warm", ports)
	if err := runtime.Del(warm); err != nil {
		t.Fatal(err)
	}
	clean := runtime.Node.Snapshot()

	whole := time.Now()
	if err := runtime.Add(warm, ports); err != nil {
		t.Fatal(err)
	}
	duration := time.Since(whole)
	if err := runtime.Del(warm); err != nil {
		t.Fatal(err)
	}

	killed := 0
	for i := range 60 {
		pod := netlab.NewPod(t, fmt.Sprintf("pod-%d", i))
		pod.ServeTCP(":80")
		commands := []string{"ADD"}
		if i%3 == 2 {
			// Killed in ADD, then killed in DEL.
			commands = []string{"ADD", "DEL"}
		}
		for _, command := range commands {
			if killAfter(t, runtime, command, pod, ports, rand.N(duration)) {
				killed++
			}
		}
		if i%2 == 0 {
			if err := runtime.Add(pod, ports); err != nil {
				t.Fatalf("ADD after a kill: %v", err)
			}
			if err := runtime.Check(pod); err != nil {
				t.Fatalf("CHECK after a kill: %v", err)
			}
			mustSee(t, "host port after a kill", outsideIP)(outside.SendTCP(nodeIP+":8080", 1000))
		}
		if err := runtime.Del(pod); err != nil {
			t.Fatalf("DEL after a kill: %v", err)
		}
		if diff := netlab.Difference(clean, runtime.Node.Snapshot()); diff != "" {
			t.Fatalf("left behind:\n%s", diff)
		}
		if left := leases(t, runtime); len(left) != 1 {
			t.Fatalf("leases left behind: %v", left)
		}
	}
	if killed < 20 {
		t.Errorf("only %d calls were killed; the test tests little", killed)
	}
	mustSee(t, "the pod beside", calm.Address.String())(calm.SendTCP(nodeIP+":10250", 1000))
}

// killAfter starts the plugin and kills it; false if it was done before.
func killAfter(t *testing.T, runtime *netlab.Runtime, command string, pod *netlab.Pod, extra map[string]any, after time.Duration) bool {
	t.Helper()
	cmd, err := runtime.Command(command, pod, extra)
	if err != nil {
		t.Fatal(err)
	}
	runtime.Node.Do(cmd.Start)
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	return slices.Contains([]string{"signal: killed"}, fmt.Sprint(cmd.Wait()))
}
