package balancer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Name is that of everything a balancer has on the management cluster, its ConfigMap among it.
const Name = "api-balancer"

// serversKey is where the ConfigMap has the list.
const serversKey = "servers.json"

// Server is an API server of a cluster: the machine that it runs on, and where it answers, as host:port.
type Server struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// Write puts servers into the balancer's ConfigMap, ordered by name.
func Write(configMap *corev1.ConfigMap, servers []Server) error {
	servers = slices.Clone(servers)
	slices.SortFunc(servers, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
	content, err := json.Marshal(servers)
	if err != nil {
		return fmt.Errorf("write API servers: %w", err)
	}
	configMap.Data = map[string]string{serversKey: string(content)}
	return nil
}

// Read returns the servers that a ConfigMap names; none where it names none yet.
func Read(configMap *corev1.ConfigMap) ([]Server, error) {
	content, ok := configMap.Data[serversKey]
	if !ok {
		return nil, nil
	}
	var servers []Server
	if err := json.Unmarshal([]byte(content), &servers); err != nil {
		return nil, fmt.Errorf("read API servers: %w", err)
	}
	for _, server := range servers {
		if _, _, err := net.SplitHostPort(server.Address); err != nil {
			return nil, fmt.Errorf("read API servers: %s: %w", server.Name, err)
		}
	}
	return servers, nil
}
