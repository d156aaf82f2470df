package vpc

import (
	"strings"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/account"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func create(s *session.Session, kind *resource.Kind[*v1alpha1.Network]) *cobra.Command {
	var creation resource.Creation
	var cidr, from string
	var parts []string
	cmd := &cobra.Command{
		Use: "create [NAME]", Short: "Create a network",
		Example: "  cloud vpc create --name web --cidr 10.20.0.0/16 --subnet front=10.20.1.0/24,Public --subnet back=10.20.2.0/24",
		Args:    command.AtMostOne("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := creation.Waiting.Check(cmd); err != nil {
				return err
			}
			object, err := resource.Load(cmd, s, kind, &creation, args)
			if err != nil {
				return err
			}
			if cidr != "" {
				if object.Spec.CIDR, err = command.CIDR("cidr", cidr); err != nil {
					return err
				}
			}
			if from != "" {
				object.Spec.Account = from
			}
			for _, part := range parts {
				subnet, err := parse(part)
				if err != nil {
					return err
				}
				object.Spec.Subnets = append(object.Spec.Subnets, subnet)
			}
			return kind.Create(cmd.Context(), s, object, &creation)
		},
	}
	creation.AddTo(cmd, "network")
	creation.AddFile(cmd)
	creation.Waiting.AddTo(cmd, "the network is there")
	cmd.Flags().StringVar(&cidr, "cidr", "", "`range` of its addresses; 10.0.0.0/16 where it is not given")
	cmd.Flags().StringVar(&from, "account", "", "`account` that its infrastructure comes from; local where it is not given")
	cmd.Flags().StringArrayVar(&parts, "subnet", nil, "`name=range[,role[,zone]]` of a part of it, with role Public, Private or Intra; repeatable")
	account.Kind().CompleteFlag(s, cmd, "account")
	return cmd
}

// parse reads name=range[,role[,zone]].
func parse(text string) (v1alpha1.Subnet, error) {
	name, rest, found := strings.Cut(text, "=")
	fields := strings.Split(rest, ",")
	if !found || name == "" || len(fields) > 3 {
		return v1alpha1.Subnet{}, exit.Usagef("--subnet: %q is no subnet; it looks like back=10.0.2.0/24,Private", text)
	}
	cidr, err := command.CIDR("subnet", fields[0])
	if err != nil {
		return v1alpha1.Subnet{}, err
	}
	subnet := v1alpha1.Subnet{Name: name, CIDR: cidr}
	if len(fields) > 1 {
		role, err := command.OneOf("subnet", fields[1], string(v1alpha1.SubnetPublic), string(v1alpha1.SubnetPrivate), string(v1alpha1.SubnetIntra))
		if err != nil {
			return v1alpha1.Subnet{}, err
		}
		subnet.Role = v1alpha1.SubnetRole(role)
	}
	if len(fields) > 2 {
		subnet.Zone = fields[2]
	}
	return subnet, nil
}
