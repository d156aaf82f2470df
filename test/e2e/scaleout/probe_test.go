//go:build e2e

package scaleout

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

const (
	probeInterval = 250 * time.Millisecond
	probeTimeout  = 3 * time.Second
	// longestSilence is how long a client that asks again and again may go without an answer: until the node is taken for
	// lost, every second connection leads to its replica, and it happens that several in a row do.
	longestSilence = 25 * time.Second
	// settledAfter is how long after the first failure the last one may be.
	settledAfter = 60 * time.Second
)

// prober asks a cluster's API for something that it has to read from the datastore, over a new connection each time.
type prober struct {
	client  *http.Client
	url     string
	cancel  context.CancelFunc
	done    sync.WaitGroup
	answers []answer
}

type answer struct {
	began, ended time.Time
	err          error
}

type report struct {
	asked, failed    int
	longest, settled time.Duration // the longest time without an answer; and from the first failure to the last one
	failures         []string
}

func (r report) String() string {
	return fmt.Sprintf("%d of %d requests failed; longest without an answer %.1f s, from the first failure to the last %.1f s%s",
		r.failed, r.asked, r.longest.Seconds(), r.settled.Seconds(), strings.Join(r.failures, ""))
}

func (s *scenario) probe(t *testing.T, tenant *lab.Tenant) *prober {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", tenant.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &prober{url: config.Host + "/api/v1/namespaces/kube-system", client: &http.Client{
		Timeout: probeTimeout, Transport: &http.Transport{TLSClientConfig: tls, DialContext: s.client.Dial, DisableKeepAlives: true},
	}}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.done.Go(func() { p.run(ctx) })
	t.Cleanup(func() { p.stop() })
	return p
}

func (p *prober) run(ctx context.Context) {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		a := answer{began: time.Now()}
		a.err = p.ask()
		a.ended = time.Now()
		p.answers = append(p.answers, a)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (p *prober) ask() error {
	response, err := p.client.Get(p.url)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", response.Status)
	}
	return nil
}

func (p *prober) during(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

// stop ends the probe and says how it went.
func (p *prober) stop() report {
	p.cancel()
	p.done.Wait()
	var r report
	var last, firstFailure time.Time
	for _, a := range p.answers {
		if last.IsZero() {
			last = a.began
		}
		r.asked++
		r.longest = max(r.longest, a.ended.Sub(last))
		if a.err == nil {
			last = a.ended
			continue
		}
		r.failed++
		if firstFailure.IsZero() {
			firstFailure = a.began
		}
		r.failures = append(r.failures, fmt.Sprintf("\n  %5.1f s, for %.1f s: %v", a.began.Sub(firstFailure).Seconds(), a.ended.Sub(a.began).Seconds(), a.err))
		r.settled = a.ended.Sub(firstFailure)
	}
	return r
}
