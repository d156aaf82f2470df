package cni_test

import (
	"fmt"
	"testing"

	"plasmacloud.io/plasmacloud/internal/network/netlab"
)

// The time a pod waits for its network, the plugin's start included, beside
// that start alone.
func BenchmarkPlugin(b *testing.B) {
	runtime, _ := newRuntime(b)
	b.Run("VERSION", func(b *testing.B) {
		pod := netlab.NewPod(b, "version")
		for b.Loop() {
			if _, err := runtime.Call("VERSION", pod, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	for name, extra := range map[string]map[string]any{
		"plain": nil, "hostPort": netlab.Ports(port("tcp", 8080, 80)), "policies": {"policies": true},
	} {
		for _, measured := range []string{"ADD", "DEL"} {
			b.Run(measured+"/"+name, func(b *testing.B) {
				for i := range b.N {
					b.StopTimer()
					pod := netlab.NewPod(b, fmt.Sprintf("pod-%s-%d", measured, i))
					for _, command := range []string{"ADD", "DEL"} {
						if command == measured {
							b.StartTimer()
						}
						if _, err := runtime.Call(command, pod, extra); err != nil {
							b.Fatal(err)
						}
						b.StopTimer()
					}
					b.StartTimer()
				}
			})
		}
	}
}
