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

// requestTimeout is how long an answer may take.
const requestTimeout = 20 * time.Second

// client is the platform as a deployer in a pod reaches it: by the service.
type client struct {
	http        *http.Client
	base, token string
	stack       string
	turn        Turn
}

var _ Platform = (*client)(nil)

func newClient(base, token string, ca []byte, stack string, turn Turn) (*client, error) {
	reach, err := reach(ca)
	if err != nil {
		return nil, err
	}
	return &client{http: reach, base: base, token: token, stack: stack, turn: turn}, nil
}

// reach talks to the platform, which its own authority has signed for.
func reach(ca []byte) (*http.Client, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("reach the platform: its certificate authority is no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}
	return &http.Client{Transport: transport, Timeout: requestTimeout}, nil
}

// Order implements Platform.
func (c *client) Order(ctx context.Context) (*Order, error) {
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

// Report implements Platform.
func (c *client) Report(ctx context.Context, report Report) error {
	body, err := json.Marshal(report)
	if err != nil {
		return err
	}
	if _, err := c.persist(ctx, http.MethodPut, "", body); err != nil {
		return fmt.Errorf("report on stack %s: %w", c.stack, err)
	}
	return nil
}

// Progress implements Platform.
func (c *client) Progress(ctx context.Context, report Report) error {
	body, err := json.Marshal(report)
	if err != nil {
		return err
	}
	_, _, err = c.try(ctx, http.MethodPut, "", body)
	return err
}

// persist tries until there is an answer that means something, or ctx ends.
func (c *client) persist(ctx context.Context, method, query string, body []byte) (answer []byte, err error) {
	err = Persist(ctx, func() (again bool, err error) {
		answer, again, err = c.try(ctx, method, query, body)
		return again, err
	})
	return answer, err
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
