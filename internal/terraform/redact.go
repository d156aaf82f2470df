package terraform

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// redacted is what stands in a secret's place.
const redacted = "(redacted)"

// shortestSecret is the length below which a value is taken for no secret: hiding every "true" would hide everything.
const shortestSecret = 8

// telling are shapes of secrets that nobody told us of.
var telling = []*regexp.Regexp{
	regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`),
	regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*`), // a JWT
	regexp.MustCompile(`\bya29\.[A-Za-z0-9_-]{10,}`),                                  // Google's access tokens
	regexp.MustCompile(`(?i)(?:bearer|basic) [a-z0-9+/=._~-]{16,}`),
	regexp.MustCompile(`k8s-aws-v1\.[A-Za-z0-9_-]{10,}`),
	regexp.MustCompile(`(?i)X-Amz-(?:Signature|Security-Token|Credential)=[^&\s"]+`),
}

// Redactor takes secrets out of text.
type Redactor struct{ replacer *strings.Replacer }

// NewRedactor knows the given secrets, and what they look like in JSON, in URLs and in base64.
func NewRedactor(secrets ...string) *Redactor {
	var forms []string
	for _, secret := range secrets {
		if trimmed := strings.TrimSpace(secret); trimmed != secret {
			forms = append(forms, shapes(trimmed)...)
		}
		forms = append(forms, shapes(secret)...)
		if address, err := url.Parse(strings.TrimSpace(secret)); err == nil && address.User != nil { // so is what is secret of an address
			password, _ := address.User.Password()
			forms = append(forms, shapes(password)...)
		}
		var document map[string]any // a key file: its parts are secrets too
		if json.Unmarshal([]byte(secret), &document) == nil {
			for name, value := range document {
				if text, ok := value.(string); ok && secretName.MatchString(name) {
					forms = append(forms, shapes(text)...)
				}
			}
		}
	}
	forms = slices.DeleteFunc(forms, func(form string) bool { return len(form) < shortestSecret })
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) }) // the whole before its parts
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, redacted)
	}
	return &Redactor{strings.NewReplacer(pairs...)}
}

func shapes(secret string) []string {
	quoted, err := json.Marshal(secret)
	if err != nil {
		quoted = []byte(`""`)
	}
	return []string{
		secret, strings.Trim(string(quoted), `"`), url.QueryEscape(secret), url.PathEscape(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
}

// Text returns the text without secrets.
func (r *Redactor) Text(text string) string {
	text = r.replacer.Replace(text)
	for _, shape := range telling {
		text = shape.ReplaceAllString(text, redacted)
	}
	return text
}
