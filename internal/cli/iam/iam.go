// Package iam is the command line's side of the identity service: it logs in and out, and asks who somebody is. The
// messages are those of the service's own wire package.
package iam

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
	"net/netip"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"plasmacloud.io/plasmacloud/internal/iam/wire"
	access "plasmacloud.io/plasmacloud/internal/kubeaccess/wire"
)

const (
	timeout   = 30 * time.Second
	maxAnswer = 1 << 20
)

// Client talks to one identity service.
type Client struct {
	base, ca string
	http     *http.Client
}

// New returns a client of the service at a URL, which is known by the certificates of ca, or by the system's where that
// is empty.
func New(base, ca string) (*Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	transport.Proxy = proxy
	if ca != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("the context's ca holds no certificate")
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return &Client{base: strings.TrimSuffix(base, "/"), ca: ca, http: &http.Client{Transport: transport, Timeout: timeout}}, nil
}

// proxy is the one that the environment names, but for addresses of private networks: a service inside of a cluster on this
// host is one, and no proxy knows the way there.
func proxy(request *http.Request) (*url.URL, error) {
	if address, err := netip.ParseAddr(request.URL.Hostname()); err == nil && address.IsPrivate() {
		return nil, nil
	}
	return http.ProxyFromEnvironment(request)
}

// Login begins a session.
func (c *Client) Login(ctx context.Context, email, password string) (*wire.Session, error) {
	session := &wire.Session{}
	return session, c.call(ctx, http.MethodPost, wire.PathLogin, "", wire.LoginRequest{Email: email, Password: password}, session)
}

// Refresh continues a session with a new access token.
func (c *Client) Refresh(ctx context.Context, refreshToken string) (*wire.Session, error) {
	session := &wire.Session{}
	return session, c.call(ctx, http.MethodPost, wire.PathRefresh, "", wire.RefreshRequest{RefreshToken: refreshToken}, session)
}

// Logout ends a session.
func (c *Client) Logout(ctx context.Context, token, refreshToken string) error {
	return c.call(ctx, http.MethodPost, wire.PathLogout, token, wire.LogoutRequest{RefreshToken: refreshToken}, nil)
}

// Whoami tells who a token speaks for.
func (c *Client) Whoami(ctx context.Context, token string) (*wire.Identity, error) {
	identity := &wire.Identity{}
	return identity, c.call(ctx, http.MethodGet, wire.PathWhoami, token, nil, identity)
}

// Config is how to talk to what others serve at the same place.
func (c *Client) Config(token string) *rest.Config {
	return &rest.Config{
		Host: c.base, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(c.ca)}, Proxy: proxy, UserAgent: "cloud",
	}
}

// Ask is nil where what others serve at the same place would be done.
func (c *Client) Ask(ctx context.Context, token, path string) error {
	return c.call(ctx, http.MethodGet, path, token, nil, nil)
}

// Access is a way into a cluster that is in a cloud.
func (c *Client) Access(ctx context.Context, token, project, cluster string) (*access.Access, error) {
	answer := &access.Access{}
	return answer, c.call(ctx, http.MethodPost, access.Path(project, cluster), token, nil, answer)
}

// Ready is nil when the service can do its work.
func (c *Client) Ready(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, wire.PathReady, "", nil, nil)
}

// SetPassword sets the caller's password, or another user's.
func (c *Client) SetPassword(ctx context.Context, token string, request wire.PasswordRequest) error {
	return c.call(ctx, http.MethodPost, wire.PathPassword, token, request, nil)
}

// CreateToken makes an access token.
func (c *Client) CreateToken(ctx context.Context, token string, request wire.TokenRequest) (*wire.Token, error) {
	made := &wire.Token{}
	return made, c.call(ctx, http.MethodPost, wire.PathTokens, token, request, made)
}

// ListTokens lists the access tokens of a user; the caller's where user is empty.
func (c *Client) ListTokens(ctx context.Context, token, user string) ([]wire.Token, error) {
	path := wire.PathTokens
	if user != "" {
		path += "?" + url.Values{"user": {user}}.Encode()
	}
	var list wire.TokenList
	if err := c.call(ctx, http.MethodGet, path, token, nil, &list); err != nil {
		return nil, err
	}
	return list.Items, nil
}

// RevokeToken ends an access token.
func (c *Client) RevokeToken(ctx context.Context, token, name string) error {
	return c.call(ctx, http.MethodDelete, wire.PathTokens+"/"+url.PathEscape(name), token, nil, nil)
}

// call sends a request and reads the answer.
func (c *Client) call(ctx context.Context, method, path, token string, request, answer any) error {
	var body io.Reader
	if request != nil {
		content, err := json.Marshal(request)
		if err != nil {
			return err
		}
		body = bytes.NewReader(content)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("reach the identity service: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the identity service's answer: %w", err)
	}
	if response.StatusCode >= 300 {
		return refusal(response, content)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(content, answer); err != nil {
		return fmt.Errorf("read the identity service's answer: %w", err)
	}
	return nil
}

// refusal turns an answer that is none into the error that the management API would give.
func refusal(response *http.Response, content []byte) error {
	status := metav1.Status{}
	if err := json.Unmarshal(content, &status); err != nil || status.Message == "" {
		return apierrors.NewGenericServerResponse(response.StatusCode, response.Request.Method, schema.GroupResource{Resource: "the identity service"},
			"", strings.TrimSpace(string(content)), 0, false)
	}
	if status.Reason == "" {
		generic := apierrors.NewGenericServerResponse(response.StatusCode, response.Request.Method, schema.GroupResource{}, "", "", 0, false)
		status.Reason = generic.ErrStatus.Reason
	}
	status.Code = int32(response.StatusCode)
	return &apierrors.StatusError{ErrStatus: status}
}
