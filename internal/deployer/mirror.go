package deployer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"plasmacloud.io/plasmacloud/internal/terraform/state"
)

// mirror is the platform's copy of a state that is kept elsewhere: the platform reads outputs and resources of stacks from
// there, wherever their states are. A deployer has the copy's lock for as long as it works. One that was replaced has lost
// it, and writes nothing any more.
type mirror struct {
	http           *http.Client
	address, token string
	lock           state.Lock
}

func newMirror(address, token string, ca []byte, operation Operation) (*mirror, error) {
	reach, err := reach(ca)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // it is for people
	return &mirror{http: reach, address: address, token: token, lock: state.Lock{
		ID: rand.Text(), Operation: string(operation), Who: "deployer@" + host, Created: time.Now().UTC(),
	}}, nil
}

// hold takes the lock.
func (m *mirror) hold(ctx context.Context) error {
	body, err := json.Marshal(m.lock)
	if err != nil {
		return err
	}
	_, status, err := m.ask(ctx, "LOCK", "", body)
	if status == http.StatusLocked {
		return errors.New("lock the platform's copy of the state: another deployer has the lock")
	}
	if err != nil {
		return fmt.Errorf("lock the platform's copy of the state: %w", err)
	}
	return nil
}

// release gives the lock back. It is no error if it was taken away.
func (m *mirror) release(ctx context.Context) error {
	body, err := json.Marshal(m.lock)
	if err != nil {
		return err
	}
	if _, status, err := m.ask(ctx, "UNLOCK", "", body); err != nil && status != http.StatusLocked {
		return fmt.Errorf("unlock the platform's copy of the state: %w", err)
	}
	return nil
}

// version is which state one is. Without a lineage it is none at all.
type version struct {
	Serial  int64  `json:"serial"`
	Lineage string `json:"lineage"`
	content string // all of it but the version of the engine, which tells it in its own way
}

func versionOf(raw []byte) (v version, err error) {
	if len(raw) == 0 {
		return v, nil
	}
	var content map[string]any
	if json.Unmarshal(raw, &v) != nil || json.Unmarshal(raw, &content) != nil {
		return v, errors.New("it is not JSON") // the text has secrets in it
	}
	delete(content, "terraform_version")
	v.content = fmt.Sprint(content) // maps are sorted
	return v, nil
}

// update makes the copy what the state is, and tells whether somebody has written that since it was copied: whoever it was may
// have written it over what another one knew. It refuses a state that did not come of the one that the platform knows, as
// whoever went on with that would make anew what is there.
func (m *mirror) update(ctx context.Context, raw []byte) (overtaken bool, err error) {
	now, err := versionOf(raw)
	if err != nil {
		return false, fmt.Errorf("read the state: %w", err)
	}
	answer, status, err := m.ask(ctx, http.MethodGet, "", nil)
	if err != nil && status != http.StatusNotFound {
		return false, fmt.Errorf("read the platform's copy of the state: %w", err)
	}
	copied, err := versionOf(answer)
	if err != nil {
		return false, fmt.Errorf("read the platform's copy of the state: %w", err)
	}
	switch {
	case now.Lineage == copied.Lineage && now.Serial == copied.Serial:
		return copied.Lineage != "" && now.content != copied.content, nil
	case now.Lineage == "":
		return false, fmt.Errorf("the state is gone from where the account keeps it; the platform has seen it with serial %d: restore it there", copied.Serial)
	case copied.Lineage != "" && now.Lineage != copied.Lineage:
		return false, fmt.Errorf("the state where the account keeps it is that of something else: its lineage is %q, the platform has seen %q: restore it there", now.Lineage, copied.Lineage)
	case now.Serial < copied.Serial:
		return false, fmt.Errorf("the state where the account keeps it is old: its serial is %d, the platform has seen %d: restore the newer one there", now.Serial, copied.Serial)
	}
	_, status, err = m.ask(ctx, http.MethodPost, "?ID="+m.lock.ID, raw)
	if status == http.StatusLocked || status == http.StatusConflict { // the lock was taken away
		return false, ErrReplaced
	}
	if err != nil {
		return false, fmt.Errorf("copy the state to the platform: %w", err)
	}
	return copied.Lineage != "", nil
}

// ask asks until there is an answer that means something, or ctx ends. An answer that is no good is an error too.
func (m *mirror) ask(ctx context.Context, method, query string, body []byte) (answer []byte, status int, err error) {
	err = Persist(ctx, func() (again bool, err error) {
		answer, status, err = m.try(ctx, method, query, body)
		return ctx.Err() == nil && (status == 0 || status >= http.StatusInternalServerError), err
	})
	return answer, status, err
}

// try asks once. The status is 0 where there was no answer.
func (m *mirror) try(ctx context.Context, method, query string, body []byte) (answer []byte, status int, err error) {
	request, err := http.NewRequestWithContext(ctx, method, m.address+query, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	request.SetBasicAuth(state.TokenUser, m.token)
	response, err := m.http.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	if answer, err = io.ReadAll(response.Body); err != nil {
		return nil, 0, err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, response.StatusCode, errors.New(response.Status)
	}
	return answer, response.StatusCode, nil
}
