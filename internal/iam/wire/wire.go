// Package wire is the identity service's HTTP interface as its clients see it: paths, and the JSON of requests and
// answers. Clients such as the command line import this and nothing else of the service; so it holds no logic.
//
// Requests other than authenticate and those that log in carry `Authorization: Bearer <access token>`. A failure is
// answered with a Kubernetes Status (metav1.Status: message, reason, code): 400 for a request that cannot be read, 401
// for wrong credentials or a token that is not accepted, 403 for what the caller may not do, 404, 422 for a value that
// does not do, 429 with Retry-After where too many logins failed, 503 while something is away.
package wire

import "time"

// Paths of the service.
const (
	// PathPrefix is where all but the discovery documents live.
	PathPrefix = "/apis/iam.plasmacloud.io/v1"
	// PathAuthenticate judges a token for an API server: POST of a TokenReview, over mutual TLS.
	PathAuthenticate = PathPrefix + "/authenticate"
	// PathLogin: POST LoginRequest, answered with Session.
	PathLogin = PathPrefix + "/login"
	// PathRefresh: POST RefreshRequest, answered with Session.
	PathRefresh = PathPrefix + "/refresh"
	// PathLogout: POST LogoutRequest, answered with 204.
	PathLogout = PathPrefix + "/logout"
	// PathWhoami: GET, answered with Identity.
	PathWhoami = PathPrefix + "/whoami"
	// PathPassword: POST PasswordRequest, answered with 204. All sessions and tokens of the user end.
	PathPassword = PathPrefix + "/password"
	// PathTokens: POST TokenRequest, answered with 201 and Token, the only time that the token itself is shown; GET
	// (with ?user= for another's), answered with TokenList. DELETE of PathTokens/<name> revokes one, answered with 204.
	PathTokens = PathPrefix + "/tokens"

	// PathDiscovery and PathKeys are the documents of OpenID Connect discovery: who signs tokens, with which keys.
	PathDiscovery = "/.well-known/openid-configuration"
	PathKeys      = "/openid/v1/jwks"
	// PathHealth answers while the process lives, PathReady while it can do its work.
	PathHealth = "/healthz"
	PathReady  = "/readyz"
)

// LoginRequest is an e-mail address with its password.
type LoginRequest struct {
	Email    string `json:"email"`
	Password string `json:"password"`
	Scope
}

// Scope narrows what an access token is good for.
type Scope struct {
	// Project to confine the token to; all of the user's where it is empty.
	Project string `json:"project,omitempty"`
	// Audience is the name of the only API server that shall accept the token; all where it is empty.
	Audience string `json:"audience,omitempty"`
}

// RefreshRequest asks for a new access token of a session.
type RefreshRequest struct {
	RefreshToken string `json:"refreshToken"`
	Scope
}

// Session is what a login or a refresh gives.
type Session struct {
	// AccessToken is the bearer token for API servers and for this service. It is short-lived.
	AccessToken string    `json:"accessToken"`
	TokenType   string    `json:"tokenType"` // Bearer
	ExpiresAt   time.Time `json:"expiresAt"`
	// RefreshToken gives new access tokens until SessionExpiresAt; then the user logs in again. A refresh leaves it as
	// it is.
	RefreshToken     string    `json:"refreshToken"`
	SessionExpiresAt time.Time `json:"sessionExpiresAt"`
	// User is who logged in.
	User string `json:"user"`
}

// LogoutRequest ends a session: its refresh token and all access tokens that came from it.
type LogoutRequest struct {
	RefreshToken string `json:"refreshToken"`
}

// Identity is who a token speaks for.
type Identity struct {
	// Name of the User.
	Name string `json:"name"`
	// ID is the user's for good; no later user of the same name has it.
	ID string `json:"id"`
	// Kind is Person or ServiceAccount.
	Kind string `json:"kind"`
	// Email of a person.
	Email string `json:"email,omitempty"`
	// Username and Groups are what Kubernetes sees.
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
	// Organization and Projects, with the role in each, are where the token is good.
	Organization      string       `json:"organization"`
	Projects          []Membership `json:"projects,omitempty"`
	OrganizationAdmin bool         `json:"organizationAdmin,omitempty"`
	PlatformAdmin     bool         `json:"platformAdmin,omitempty"`
	// ExpiresAt is when the token ends; never, where it is absent.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// Membership is a role (admin, member, viewer) in a project.
type Membership struct {
	Project string `json:"project"`
	Role    string `json:"role"`
}

// PasswordRequest sets a password.
type PasswordRequest struct {
	// User whose password it is; the caller's own where it is empty. An administrator may set another's.
	User string `json:"user,omitempty"`
	// Current password; needed for one's own.
	Current string `json:"current,omitempty"`
	New     string `json:"new"`
}

// TokenRequest makes an access token.
type TokenRequest struct {
	// User that it shall speak for; the caller where it is empty. An administrator may make one for others, above all
	// for service accounts.
	User        string `json:"user,omitempty"`
	Description string `json:"description,omitempty"`
	// Project to confine the token to; all of the user's where it is empty.
	Project string `json:"project,omitempty"`
	// ExpiresAt is when it ends; never, where it is absent.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// Token is an access token.
type Token struct {
	Name string `json:"name"`
	// Token is the secret itself; only the answer to its making has it.
	Token       string     `json:"token,omitempty"`
	User        string     `json:"user"`
	Description string     `json:"description,omitempty"`
	Project     string     `json:"project,omitempty"`
	CreatedAt   time.Time  `json:"createdAt,omitzero"`
	ExpiresAt   *time.Time `json:"expiresAt,omitempty"`
	LastUsed    *time.Time `json:"lastUsed,omitempty"`
	Revoked     bool       `json:"revoked,omitempty"`
}

// TokenList is the access tokens of a user.
type TokenList struct {
	Items []Token `json:"items"`
}
