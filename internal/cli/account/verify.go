package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/progress"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func verify(s *session.Session, kind *resource.Kind[*v1alpha1.Account]) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "verify ACCOUNT", Short: "Tell whether infrastructure can come from an account",
		Long: "verify has the platform look at the account, and ends with exit code 1 where it cannot be used. Of one in a cloud it asks\n" +
			"the cloud itself: whether it accepts the credentials, and which of the permissions that the platform needs are missing.",
		Args:              command.Exactly("ACCOUNT"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return exit.Usagef("--timeout: give a time, such as 90s or 10m")
			}
			account, err := kind.Fetch(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			if account.Spec.Provider.IsCloud() && account.Status.Access != nil { // which one that is not offered never gets
				if account, err = lookAgain(cmd.Context(), s, account, timeout); err != nil {
					return err
				}
			}
			if err := kind.Show(s, account); err != nil {
				return err
			}
			return judge(account)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "`time` to wait for the cloud's answer at most")
	return cmd
}

// lookAgain has the platform ask the cloud now, and returns the account with the answer.
func lookAgain(ctx context.Context, s *session.Session, account *v1alpha1.Account, timeout time.Duration) (*v1alpha1.Account, error) {
	api, err := s.Client(ctx)
	if err != nil {
		return nil, err
	}
	request := s.Now().UTC().Format(time.RFC3339Nano)
	if err := resource.Annotate(ctx, api, account, v1alpha1.AnnotationVerify, request); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err = progress.Follow(ctx, api, &v1alpha1.AccountList{}, func(event progress.Event) bool {
		seen, ok := event.Object.(*v1alpha1.Account)
		if !ok || event.Deleted || seen.UID != account.UID {
			return false
		}
		account = seen
		return seen.Status.Access != nil && seen.Status.Access.Request == request
	}, client.InNamespace(account.Namespace), client.MatchingFields{"metadata.name": account.Name})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, exit.With(exit.TimedOut, "", fmt.Errorf("the time is up, and the platform has not looked at account %s", account.Name))
	}
	return account, err
}

// judge puts the account's conditions into an exit code.
func judge(account *v1alpha1.Account) error {
	if account.Status.ObservedGeneration < account.Generation {
		return exit.With(exit.Failed, "try again in a moment", fmt.Errorf("the platform has not looked at account %s yet", account.Name))
	}
	known := false
	for _, condition := range account.Status.Conditions {
		bad := condition.Status != "True"
		switch {
		case condition.Type == v1alpha1.ConditionReady && bad:
			return exit.With(exit.Failed, "", fmt.Errorf("account %s cannot be used: %s", account.Name, condition.Message))
		case condition.Type == v1alpha1.ConditionReady:
			known = true
		case condition.Type == v1alpha1.ConditionVerified && bad:
			return exit.With(exit.Failed, "", fmt.Errorf("account %s: %s", account.Name, condition.Message))
		}
	}
	if !known {
		return exit.With(exit.Failed, "try again in a moment", fmt.Errorf("the platform has not looked at account %s yet", account.Name))
	}
	return nil
}

// identity is who an account in a cloud is there, and what it lacks.
func identity(a *v1alpha1.Account) [][]string {
	if a.Status.Access == nil {
		return nil
	}
	rows := [][]string{{"Identity:", a.Status.Access.Identity}}
	if len(a.Status.Access.Missing) > 0 {
		rows = append(rows, []string{"Missing:", strings.Join(a.Status.Access.Missing, " ")})
	}
	return rows
}
