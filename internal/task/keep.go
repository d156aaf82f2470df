package task

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// write writes the status of a task that is this session's. It tries again, also while the API is away, until the
// session has ended: what was done is not done again because a request was lost.
func (s *session) write(ctx context.Context) error {
	for failures := 1; ; failures++ {
		err := s.putOver(ctx)
		if err == nil || errors.Is(err, ErrLost) || errors.Is(err, errGone) {
			return err
		}
		s.log.Debug("cannot write the record; trying again", "error", err)
		timer := s.worker.Clock.NewTimer(Backoff{First: 100 * time.Millisecond, Max: 2 * time.Second}.Delay(failures))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// putOver writes the status over changes that others made, unless a later session made them.
func (s *session) putOver(ctx context.Context) error {
	for {
		err := s.put(ctx)
		if errors.Is(err, ErrNotFound) {
			return errGone
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
		latest, err := s.worker.Record.Latest(ctx, ItemOf(s.task).Task)
		switch {
		case errors.Is(err, ErrNotFound), err == nil && latest.UID != s.task.UID:
			return errGone
		case err != nil:
			return err
		case latest.Status.Fence != s.lease.Fence():
			return fmt.Errorf("%w: worker %s has the task", ErrLost, latest.Status.Worker)
		}
		status := s.task.Status
		s.task = latest.DeepCopy()
		s.task.Status = status
	}
}

// put writes the status as it was decided on. ErrConflict means that something else may have to be decided.
func (s *session) put(ctx context.Context) error {
	written, err := s.worker.Record.WriteStatus(ctx, s.task)
	if err != nil {
		return err
	}
	s.task = written.DeepCopy()
	s.wrote = s.worker.Clock.Now()
	switch status := &s.task.Status; {
	case status.Phase.Finished():
		s.worker.Observer.Finished(s.task.Spec.Operation, status.Phase)
	case status.RetryAt != nil && status.Error != "":
		s.worker.Observer.Retried(s.task.Spec.Operation)
	}
	return nil
}

// message is what a step has reported and nobody has written yet. Setting it never waits for a write.
type message struct {
	mu     sync.Mutex
	text   string
	unsaid bool
}

func (m *message) set(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text, m.unsaid = text, true
}

func (m *message) take() (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	unsaid := m.unsaid
	m.unsaid = false
	return m.text, unsaid
}

// keep prolongs the lease and writes what steps report until the returned function is called. It ends the session's
// context when the lease is lost, and the step that runs some time after outer has ended.
func (s *session) keep(outer, ctx context.Context, cancel context.CancelCauseFunc) (stop func()) {
	ended := make(chan struct{})
	stopping, stopped := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		ticker := s.worker.Clock.NewTicker(min(ReportInterval, s.worker.LeaseDuration/5))
		defer ticker.Stop()
		shutdown := outer.Done()
		var grace <-chan time.Time
		renewed := s.worker.Clock.Now()
		for {
			select {
			case <-stopping.Done():
				return
			case <-shutdown:
				shutdown = nil
				timer := s.worker.Clock.NewTimer(s.worker.Grace)
				defer timer.Stop()
				grace = timer.C()
			case <-grace:
				close(s.halt)
				grace = nil
			case <-ticker.C():
				err := s.renew(stopping, &renewed)
				if err == nil {
					err = s.flush(stopping)
				}
				if err != nil {
					cancel(err)
					return
				}
			}
		}
	}()
	return func() { stopped(); <-ended }
}

// renew prolongs the lease when a third of its time has gone by. It returns an error when it is lost, or when it could
// not be prolonged in time.
func (s *session) renew(ctx context.Context, renewed *time.Time) error {
	began := s.worker.Clock.Now()
	if began.Sub(*renewed) < s.worker.LeaseDuration/3 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.worker.LeaseDuration/3)
	defer cancel()
	err := s.lease.Renew(ctx)
	switch {
	case err == nil:
		*renewed = began
		return nil
	case errors.Is(err, ErrLost):
		return err
	case s.worker.Clock.Now().Sub(*renewed) >= s.worker.LeaseDuration*4/5:
		// Others may have it when its time is up; by then nothing must go on here.
		return fmt.Errorf("%w: it could not be prolonged: %w", ErrLost, err)
	default:
		s.log.Debug("cannot prolong the lease; trying again", "error", err)
		return nil
	}
}

// flush writes what a step has reported, not too often. It returns an error if the task is another worker's now.
func (s *session) flush(ctx context.Context) error {
	if !s.mu.TryLock() {
		return nil // no step runs
	}
	defer s.mu.Unlock()
	if s.worker.Clock.Now().Sub(s.wrote) < ReportInterval {
		return nil
	}
	text, unsaid := s.message.take()
	if !unsaid {
		return nil
	}
	for i := range s.task.Status.Steps {
		if step := &s.task.Status.Steps[i]; step.Name == s.task.Status.Step {
			step.Message = text
		}
	}
	err := s.putOver(ctx)
	if errors.Is(err, ErrLost) || errors.Is(err, errGone) {
		return err
	}
	if err != nil {
		s.log.Debug("cannot write what a step reports; it is written with its end", "error", err)
	}
	return nil
}
