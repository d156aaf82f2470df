package tenant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

const (
	// firstDelay grows to startDelay while an API is probably starting, when somebody waits for it, and to longDelay
	// when it stays away.
	firstDelay  = 50 * time.Millisecond
	startDelay  = 300 * time.Millisecond
	startPeriod = time.Minute
	longDelay   = 30 * time.Second
	// makingDelay is how often it is looked for the kubeconfig of a cluster that has none yet: somebody makes it just now.
	makingDelay = time.Second
	// knownFor is how long a kubeconfig is used again that has not led anywhere.
	knownFor = 5 * time.Second

	// requestTimeout is how long an API may take to answer.
	requestTimeout = 10 * time.Second

	// credentialsInterval is how often the kubeconfig is looked at, besides when it fails. Certificates are renewed
	// long before the old ones end.
	credentialsInterval = 15 * time.Minute
)

// link keeps a cluster connected.
type link struct {
	connections *Connections
	key         types.NamespacedName
	uid         types.UID
	namespace   string
	stop        context.CancelFunc
	log         *slog.Logger

	known []byte // the kubeconfig as it was last read
	read  time.Time

	mu      sync.Mutex
	current *Connection
	problem error // why there is none
}

func (l *link) get() (*Connection, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return nil, fmt.Errorf("%w: %w", ErrNotConnected, l.problem)
	}
	return l.current, nil
}

func (l *link) set(connection *Connection, problem error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current, l.problem = connection, problem
}

// run connects again and again until ctx ends.
func (l *link) run(ctx context.Context) {
	began, delay := l.connections.config.Clock.Now(), firstDelay
	for {
		connection, err := l.connect(ctx)
		if err == nil {
			l.log.Info("connected to a cluster's API")
			l.set(connection, nil)
			l.connections.publish(Change{Cluster: l.key})
			err = l.serve(ctx, connection)
			l.known = nil
			l.log.Info("connecting to a cluster's API anew", "why", err)
			began, delay = l.connections.config.Clock.Now(), firstDelay
			l.set(nil, err)
			l.connections.publish(Change{Cluster: l.key})
		}
		l.set(nil, err)
		if l.pause(ctx, delay, nil) != nil {
			return
		}
		limit := longDelay
		if apierrors.IsNotFound(err) {
			limit = makingDelay
		}
		if l.connections.config.Clock.Since(began) < startPeriod {
			limit = startDelay
		}
		delay = min(delay*3/2, limit)
	}
}

// pause returns after about that time, or earlier when something is wrong with the connection, or with an error when ctx
// ends.
func (l *link) pause(ctx context.Context, delay time.Duration, early <-chan struct{}) error {
	timer := l.connections.config.Clock.NewTimer(wait.Jitter(delay, 0.2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-early:
	case <-timer.C():
	}
	return nil
}

// connect reads the kubeconfig, where it may have changed, and uses it.
func (l *link) connect(ctx context.Context) (*Connection, error) {
	if now := l.connections.config.Clock.Now(); l.known == nil || now.Sub(l.read) > knownFor {
		kubeconfig, err := l.kubeconfig(ctx)
		if err != nil {
			return nil, err
		}
		l.known, l.read = kubeconfig, now
	}
	return l.open(ctx, l.known)
}

func (l *link) kubeconfig(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	secret, err := l.connections.config.API.CoreV1().Secrets(l.namespace).Get(ctx, KubeconfigSecret, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	content := secret.Data[v1alpha1.KubeconfigSuperAdminService]
	if len(content) == 0 {
		return nil, fmt.Errorf("read the kubeconfig: secret %s/%s has no %s", l.namespace, secret.Name, v1alpha1.KubeconfigSuperAdminService)
	}
	return content, nil
}

// serve keeps a connection until the API is away or the credentials have changed, and says so.
func (l *link) serve(ctx context.Context, connection *Connection) error {
	defer connection.close()
	for {
		if err := l.pause(ctx, credentialsInterval, connection.suspect); err != nil {
			return err
		}
		if err := connection.probe(ctx); err != nil {
			return err
		}
		kubeconfig, err := l.kubeconfig(ctx)
		if err == nil && !bytes.Equal(kubeconfig, connection.kubeconfig) {
			return errors.New("the credentials have changed")
		}
	}
}
