package deployer

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/internal/terraform/state"
)

// How often, and with which pauses, a request is tried again: the service may be restarting.
const (
	firstPause, longestPause = 200 * time.Millisecond, 10 * time.Second
	requestTimeout           = 20 * time.Second
)

// client talks to the service.
type client struct {
	http        *http.Client
	base, token string
	stack       string
	turn        Turn
}

func newClient(base, token string, ca []byte, stack string, turn Turn) (*client, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("reach the platform: its certificate authority is no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}
	return &client{http: &http.Client{Transport: transport, Timeout: requestTimeout}, base: base, token: token, stack: stack, turn: turn}, nil
}

// order fetches the order.
func (c *client) order(ctx context.Context) (*Order, error) {
	query := url.Values{"id": {c.turn.ID}, "attempt": {strconv.Itoa(c.turn.Attempt)}}
	answer, err := c.persist(ctx, http.MethodGet, "?"+query.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("fetch order for stack %s: %w", c.stack, err)
	}
	order := &Order{}
	if err := json.Unmarshal(answer, order); err != nil {
		return nil, fmt.Errorf("read order for stack %s: it is not JSON", c.stack) // the text may have secrets in it
	}
	return order, nil
}

// report tells how far it is.
func (c *client) report(ctx context.Context, report Report) error {
	report.Turn = c.turn
	body, err := json.Marshal(report)
	if err != nil {
		return err
	}
	if _, err := c.persist(ctx, http.MethodPut, "", body); err != nil {
		return fmt.Errorf("report on stack %s: %w", c.stack, err)
	}
	return nil
}

// persist tries until there is an answer that means something, or ctx ends.
func (c *client) persist(ctx context.Context, method, query string, body []byte) ([]byte, error) {
	pause := firstPause
	for {
		answer, again, err := c.try(ctx, method, query, body)
		if !again {
			return answer, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, errors.Join(ctx.Err(), err)
		case <-timer.C:
		}
		pause = min(2*pause, longestPause)
	}
}

// try asks once, and tells whether to ask again.
func (c *client) try(ctx context.Context, method, query string, body []byte) (answer []byte, again bool, err error) {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.base, "/")+"/"+c.stack+query, bytes.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	request.SetBasicAuth(state.TokenUser, c.token)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, ctx.Err() == nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, true, err
	case response.StatusCode == http.StatusConflict:
		return nil, false, ErrReplaced
	case response.StatusCode >= 500:
		return nil, true, errors.New(response.Status)
	case response.StatusCode >= 300:
		return nil, false, errors.New(response.Status)
	}
	return answer, false, nil
}
