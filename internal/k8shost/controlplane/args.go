package controlplane

import "strings"

// merge turns key=value pairs into flags. What the user gave replaces what the launcher would say.
func merge(own, user []string) []string {
	replaced := map[string]bool{}
	for _, arg := range user {
		replaced[key(arg)] = true
	}
	var flags []string
	for _, arg := range own {
		if !replaced[key(arg)] {
			flags = append(flags, "--"+arg)
		}
	}
	for _, arg := range user {
		flags = append(flags, "--"+strings.TrimLeft(arg, "-"))
	}
	return flags
}

func key(arg string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return name
}
