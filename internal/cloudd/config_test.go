package cloudd

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestConfig names all mistakes at once, and no password.
func TestConfig(t *testing.T) {
	for line, wanted := range map[string][]string{
		"":                                  nil,
		"--roles=iam,admission":             nil,
		"--roles=iam,cook":                  {`--roles: "cook" is none of controllers, workers`},
		"--roles=":                          {"--roles: at least one"},
		"--roles=controllers":               {"--queue memory: controllers and workers have to be in one process"},
		"--roles=workers --queue=redis":     {"CLOUDD_REDIS_URL"},
		"--queue=disk --workers=0":          {`"disk" is neither memory nor redis`, "--workers, --concurrency: at least 1"},
		"--shard=2 --shards=2 --roles=cook": {"--shard, --shards", "cook"},
	} {
		config := &Config{}
		flags := pflag.NewFlagSet("cloudd", pflag.ContinueOnError)
		config.AddFlags(flags)
		if err := flags.Parse(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		err := config.Validate()
		if (err == nil) != (len(wanted) == 0) {
			t.Errorf("%s: %v", line, err)
		}
		for _, part := range wanted {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v; want %q", line, err, part)
			}
		}
	}
	config := &Config{Roles: roles(), Queue: QueueRedis, RedisURL: "redis://:secret@host:bad", Workers: 1, Concurrency: 1, Shards: 1}
	if err := config.Validate(); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("an address that is none: %v", err)
	}
}
