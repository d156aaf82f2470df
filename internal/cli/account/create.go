package account

import (
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// flags of create that are about one provider or another.
type flags struct {
	provider, region, secret       string
	keyFile, credentialsFile       string
	hosts                          []string
	bastion                        string
	knownHosts                     string
	trustOnFirstUse                bool
	awsRole, awsExternalID         string
	gcpProject, gcpServiceAccount  string
	gcpProjectNumber               string
	azureSubscription, azureTenant string
	azureClient                    string
	remoteDeployer                 bool
	state                          stateFlags
}

func create(s *session.Session, kind *resource.Kind[*v1alpha1.Account]) *cobra.Command {
	var creation resource.Creation
	var f flags
	cmd := &cobra.Command{
		Use: "create [NAME]", Short: "Create an account",
		Long: "create says where infrastructure comes from. Credentials are in a Secret of the project, which --secret names; they are\n" +
			"never given on a command line. The private key to machines that are reached over SSH can also be given as a file: it is\n" +
			"stored in a Secret that goes with the account. So can the credentials of a cloud, with --credentials-file:\n" +
			"for GCP a key file in JSON, or an access token; for AWS a credentials file with one profile; for Azure the secret of a\n" +
			"service principal.\n\n" +
			"--state-backend says where the states of what is made in a cloud are. A bucket or container is opened with the account's\n" +
			"credentials, and has to be there already; so has a database of PostgreSQL, whose address is secret: it is given as a\n" +
			"file, or is in the Secret under the key PG_CONN_STR. It cannot be changed later.\n\n" +
			"A machine that is reached over SSH proves by its key that it is the one. --known-hosts names a file that the keys are\n" +
			"in, such as `ssh-keyscan` writes or ~/.ssh/known_hosts; without it, --trust-on-first-use takes the key of the first contact.",
		Example: "  cloud account create --name lab --provider SSH --host root@10.0.0.5 --host root@10.0.0.6:2222 --known-hosts known_hosts --key-file ~/.ssh/id_ed25519\n" +
			"  cloud account create --name cellar --provider SSH --host root@10.0.0.7 --bastion ops@gate.example.com --trust-on-first-use --secret lab-ssh-key\n" +
			"  cloud account create --name prod --provider AWS --region eu-west-1 --aws-role arn:aws:iam::123456789012:role/plasmacloud\n" +
			"  cloud account create --name shop --provider GCP --region europe-west1 --gcp-project shop-123456 --credentials-file key.json\n" +
			"  cloud account create --name web --provider AWS --region eu-west-1 --credentials-file keys --state-backend s3 --state-bucket acme-states --state-prefix plasmacloud",
		Args: command.AtMostOne("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := creation.Waiting.Check(cmd); err != nil {
				return err
			}
			object, err := resource.Load(cmd, s, kind, &creation, args)
			if err != nil {
				return err
			}
			if err := f.apply(&object.Spec); err != nil {
				return err
			}
			if f.credentialsFile != "" && f.state.connectionFile == "" && object.Spec.StateType() == v1alpha1.StatePostgres {
				return exit.Usagef("--%s is missing: it says how states in PostgreSQL are reached", connectionFlag)
			}
			secret, err := f.readSecret(s, object)
			if err != nil {
				return err
			}
			if secret == nil {
				return kind.Create(cmd.Context(), s, object, &creation)
			}
			return secret.create(cmd.Context(), s, kind, object, &creation)
		},
	}
	creation.AddTo(cmd, "account")
	creation.AddFile(cmd)
	creation.Waiting.AddTo(cmd, "the account can be used")
	f.addTo(cmd)
	return cmd
}

func (f *flags) addTo(cmd *cobra.Command) {
	set := cmd.Flags()
	command.Choice(cmd, set, &f.provider, "provider", "", "", "where infrastructure comes from, Local where it is not given",
		"Local", "SSH", "KubeVirt", "AWS", "GCP", "Azure")
	set.StringVar(&f.region, "region", "", "`region` of a cloud, such as eu-west-1")
	set.StringVar(&f.secret, "secret", "", "`name` of the Secret in the project that holds the credentials")
	set.StringVar(&f.keyFile, "key-file", "", "`file` with the private key to the machines, - for standard input, for provider SSH")
	_ = cmd.MarkFlagFilename("key-file")
	set.StringVar(&f.credentialsFile, "credentials-file", "", "`file` with the credentials of a cloud, - for standard input")
	_ = cmd.MarkFlagFilename("credentials-file")
	cmd.MarkFlagsMutuallyExclusive("key-file", "credentials-file", "secret")
	set.StringVar(&f.bastion, "bastion", "", "`[user@]address[:port]` of a host to go through to the machines, for provider SSH")
	set.StringArrayVar(&f.hosts, "host", nil, "`[user@]address[:port]` of a machine, for provider SSH; repeatable")
	set.StringVar(&f.knownHosts, "known-hosts", "", "`file` with the machines' public keys, for provider SSH")
	_ = cmd.MarkFlagFilename("known-hosts")
	set.BoolVar(&f.trustOnFirstUse, "trust-on-first-use", false, "accept a machine's key at the first contact, and no other later, for provider SSH")
	set.StringVar(&f.awsRole, "aws-role", "", "`ARN` of the role to assume")
	set.StringVar(&f.awsExternalID, "aws-external-id", "", "`ID` that the role asks for")
	set.StringVar(&f.gcpProject, "gcp-project", "", "`ID` of the Google Cloud project")
	set.StringVar(&f.gcpServiceAccount, "gcp-service-account", "", "service `account` to act as")
	set.StringVar(&f.gcpProjectNumber, "gcp-project-number", "", "`number` of the project, for buckets that a cluster's service accounts use")
	set.BoolVar(&f.remoteDeployer, "remote-deployer", false, "leave the work in a cloud to deployers that run elsewhere; `cloud account deployer-token` lets them in")
	set.StringVar(&f.azureClient, "azure-client", "", "`ID` of the service principal or identity")
	set.StringVar(&f.azureSubscription, "azure-subscription", "", "`ID` of the subscription")
	set.StringVar(&f.azureTenant, "azure-tenant", "", "`ID` of the directory")
	f.state.addTo(cmd)
}

// apply puts what was given into the spec. Whether it fits together is the API's to say.
func (f *flags) apply(spec *v1alpha1.AccountSpec) error {
	if f.provider != "" {
		spec.Provider = v1alpha1.Provider(f.provider)
	}
	if f.region != "" {
		spec.Region = f.region
	}
	if f.secret != "" {
		spec.Credentials = &v1alpha1.SecretReference{Name: f.secret}
	}
	if len(f.hosts) > 0 || f.trustOnFirstUse {
		if spec.SSH == nil {
			spec.SSH = &v1alpha1.SSHInventory{}
		}
		spec.SSH.TrustOnFirstUse = spec.SSH.TrustOnFirstUse || f.trustOnFirstUse
	}
	if err := f.addHosts(spec); err != nil {
		return err
	}
	if err := f.pin(spec.SSH); err != nil {
		return err
	}
	if f.awsRole != "" || f.awsExternalID != "" {
		spec.AWS = &v1alpha1.AWSAccount{RoleARN: f.awsRole, ExternalID: f.awsExternalID}
	}
	if f.gcpProject != "" || f.gcpServiceAccount != "" {
		spec.GCP = &v1alpha1.GCPAccount{ProjectID: f.gcpProject, ProjectNumber: f.gcpProjectNumber, ServiceAccount: f.gcpServiceAccount}
	}
	if f.azureSubscription != "" || f.azureTenant != "" {
		spec.Azure = &v1alpha1.AzureAccount{SubscriptionID: f.azureSubscription, TenantID: f.azureTenant, ClientID: f.azureClient}
	}
	if f.remoteDeployer {
		spec.Deployer = &v1alpha1.AccountDeployer{Remote: true}
	}
	return f.state.apply(spec)
}

// addHosts puts the machines, and the way to them, into the spec.
func (f *flags) addHosts(spec *v1alpha1.AccountSpec) error {
	for _, text := range f.hosts {
		host, err := parse("--host", text)
		if err != nil {
			return err
		}
		spec.SSH.Hosts = append(spec.SSH.Hosts, host)
	}
	if f.bastion == "" {
		return nil
	}
	if spec.SSH == nil {
		return exit.Usagef("--bastion: there is no --host that it could lead to")
	}
	bastion, err := parse("--bastion", f.bastion)
	spec.SSH.Bastion = &bastion
	return err
}

// parse reads [user@]address[:port]; an IPv6 address with a port is in brackets.
func parse(flag, text string) (v1alpha1.SSHHost, error) {
	user, address, found := strings.Cut(text, "@")
	if !found {
		user, address = "", text
	}
	host := v1alpha1.SSHHost{User: user, Address: address}
	if name, port, err := net.SplitHostPort(address); err == nil {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return host, exit.Usagef("%s: %q is no port", flag, port)
		}
		host.Address, host.Port = name, int32(number)
	}
	if host.Address == "" || (found && user == "") {
		return host, exit.Usagef("%s: %q is no host; it looks like root@10.0.0.5:22", flag, text)
	}
	return host, nil
}
