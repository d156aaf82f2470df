package terraform

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ReadOutputs are the outputs of a state, by name.
func ReadOutputs(raw []byte) (map[string]json.RawMessage, error) {
	var state struct {
		Outputs map[string]struct {
			Value json.RawMessage `json:"value"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		return nil, fmt.Errorf("read outputs of a state: %w", err)
	}
	outputs := make(map[string]json.RawMessage, len(state.Outputs))
	for name, output := range state.Outputs {
		outputs[name] = output.Value
	}
	return outputs, nil
}

// ReadState lists the resources of a state, by address, with the cloud's names for them.
func ReadState(raw []byte) (map[string]string, error) {
	resources := make(map[string]string)
	if len(strings.TrimSpace(string(raw))) == 0 {
		return resources, nil
	}
	var state struct {
		Resources []struct {
			Module, Mode, Type, Name string
			Instances                []struct {
				IndexKey   any `json:"index_key"`
				Attributes struct {
					ID any `json:"id"`
				} `json:"attributes"`
			}
		}
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	for _, resource := range state.Resources {
		if resource.Mode != "managed" {
			continue
		}
		address := strings.TrimPrefix(resource.Module+"."+resource.Type+"."+resource.Name, ".")
		for _, instance := range resource.Instances {
			full := address
			switch key := instance.IndexKey.(type) {
			case string:
				full += fmt.Sprintf("[%q]", key)
			case float64:
				full += fmt.Sprintf("[%d]", int(key))
			}
			id, _ := instance.Attributes.ID.(string)
			resources[full] = id
		}
	}
	return resources, nil
}
