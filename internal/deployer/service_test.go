package deployer

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/terraform/state"
)

const secret = "wJalrXUtnFEMI"

// records are one stack's, which may be away for some requests.
type records struct {
	mu      sync.Mutex
	away    int
	current Turn
	reports []Report
}

func (r *records) Order(_ context.Context, stack string, turn Turn) (*Order, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away--; r.away >= 0 {
		return nil, errors.New("out of reach, with " + secret)
	}
	if turn != r.current {
		return nil, ErrReplaced
	}
	return &Order{Request: Request{ID: turn.ID, Stack: stack, Operation: Apply}, Environment: map[string]string{"KEY": secret}}, nil
}

func (r *records) Report(_ context.Context, _ string, report Report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if report.Turn != r.current {
		return ErrReplaced
	}
	r.reports = append(r.reports, report)
	return nil
}

// serve runs the service, and returns who may talk to it about a stack.
func serve(t *testing.T, r *records) (connect func(stack string, turn Turn, token string) *client, tokens *state.Tokens, log *bytes.Buffer) {
	t.Helper()
	tokens, err := state.NewTokens(bytes.Repeat([]byte{1}, state.KeySize), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	log = &bytes.Buffer{}
	server := httptest.NewTLSServer(NewService(r, tokens, slog.New(slog.NewTextHandler(log, nil))))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return func(stack string, turn Turn, token string) *client {
		c, err := newClient(server.URL, token, ca, stack, turn)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}, tokens, log
}

func TestOrdersAndReports(t *testing.T) {
	turn := Turn{ID: "a", Attempt: 2}
	r := &records{current: turn, away: 2}
	connect, tokens, _ := serve(t, r)
	c := connect("shop.network.main", turn, tokens.Issue("shop.network.main", time.Hour))
	order, err := c.Order(t.Context())
	if err != nil || order.Stack != "shop.network.main" || order.Environment["KEY"] != secret {
		t.Fatalf("%v, %v", order, err)
	}
	if strings.Contains(order.String(), secret) {
		t.Error("an order tells its credentials")
	}
	if err := c.Report(t.Context(), Report{Turn: turn, Phase: Applying, Message: "3/7"}); err != nil {
		t.Fatal(err)
	}
	if got := r.reports[0]; got.Turn != turn || got.Message != "3/7" {
		t.Errorf("%+v", got)
	}
}

func TestWhoIsReplacedIsTold(t *testing.T) {
	r := &records{current: Turn{ID: "a", Attempt: 2}}
	connect, tokens, _ := serve(t, r)
	c := connect("shop.network.main", Turn{ID: "a", Attempt: 1}, tokens.Issue("shop.network.main", time.Hour))
	if _, err := c.Order(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Errorf("order: %v", err)
	}
	if err := c.Report(t.Context(), Report{Turn: Turn{ID: "a", Attempt: 1}}); !errors.Is(err, ErrReplaced) {
		t.Errorf("report: %v", err)
	}
}

func TestATokenIsForOneStack(t *testing.T) {
	r := &records{current: Turn{ID: "a", Attempt: 1}}
	connect, tokens, log := serve(t, r)
	for name, token := range map[string]string{
		"another stack's": tokens.Issue("shop.network.other", time.Hour), "an old one": tokens.Issue("shop.network.main", -time.Hour), "none": "",
	} {
		if _, err := connect("shop.network.main", r.current, token).Order(t.Context()); err == nil || !strings.Contains(err.Error(), "403") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if strings.Contains(log.String(), tokens.Issue("shop.network.other", time.Hour)) {
		t.Error("the log tells a token")
	}
}

func TestAnAuthorityThatIsNone(t *testing.T) {
	if _, err := newClient("https://localhost", "", []byte("nonsense"), "a", Turn{}); err == nil {
		t.Error("want an error")
	}
}

func TestAServiceThatIsAwayIsWaitedFor(t *testing.T) {
	r := &records{current: Turn{ID: "a", Attempt: 1}, away: 1000}
	connect, tokens, _ := serve(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := connect("shop.network.main", r.current, tokens.Issue("shop.network.main", time.Hour)).Order(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
}

func TestArgumentsAreWhatTheCommandReads(t *testing.T) {
	args := Args("https://platform", "/nowhere", "shop.network.main", Turn{ID: "a", Attempt: 3}, "/release", "/work")
	if args[0] != Command {
		t.Errorf("%v", args)
	}
	err := RunCommand(t.Context(), args[1:], nil, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "/nowhere/token") { // the arguments were fine
		t.Errorf("%v", err)
	}
	if err := RunCommand(t.Context(), nil, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--stack") {
		t.Errorf("%v", err)
	}
}
