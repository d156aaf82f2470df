// Package bucket is the commands about buckets, storage for objects in the cloud that a cluster is in.
package bucket

import (
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/k8s"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Kind is buckets.
func Kind() *resource.Kind[*v1alpha1.Bucket] {
	return &resource.Kind[*v1alpha1.Bucket]{
		Name: "Bucket", Noun: "bucket", Plural: "buckets", Tasks: true,
		New:     func() *v1alpha1.Bucket { return &v1alpha1.Bucket{} },
		NewList: func() client.ObjectList { return &v1alpha1.BucketList{} },
		Columns: []resource.Column[*v1alpha1.Bucket]{
			resource.Text("CLUSTER", func(b *v1alpha1.Bucket) string { return b.Spec.Cluster }),
			resource.Text("ID", func(b *v1alpha1.Bucket) string { return b.Status.ID }),
			resource.Text("STATUS", func(b *v1alpha1.Bucket) string { return string(b.Status.Phase) }),
			resource.Age[*v1alpha1.Bucket](),
		},
		Conditions: func(b *v1alpha1.Bucket) []metav1.Condition { return b.Status.Conditions },
	}
}

// Command is the group.
func Command(s *session.Session) *cobra.Command {
	kind := Kind()
	byCluster := &resource.Filter{Flag: "cluster", Usage: "only those of this `cluster`", Field: "spec.cluster"}
	return command.Alias(command.Group("bucket", "Storage for objects, in the cloud that a cluster is in",
		create(s, kind), kind.List(s, byCluster), kind.Get(s), kind.DeleteWith(s, &resource.Deletion{Forgettable: true}),
		kind.PlanCommand(s, made), kind.UpgradeCommand(s, made), kind.Repair(s, made)), "buckets")
}

// made refuses a bucket that is not there yet.
func made(b *v1alpha1.Bucket) error {
	if b.Status.ObservedGeneration == 0 {
		return exit.Refusedf("wait until it is RUNNING", "bucket %s is not there yet", b.Name)
	}
	return nil
}

func create(s *session.Session, kind *resource.Kind[*v1alpha1.Bucket]) *cobra.Command {
	var creation resource.Creation
	var cluster, namespace, account, key string
	var noVersioning, deleteObjects bool
	cmd := &cobra.Command{
		Use: "create [NAME]", Short: "Create a bucket",
		Long: "create makes storage for objects in the account of the cloud that a cluster is in. It is closed to everybody but the pods\n" +
			"of the service account that --service-account names, who need no keys.",
		Example: "  cloud bucket create --name assets --cluster shop --service-account web --wait",
		Args:    command.AtMostOne("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := creation.Waiting.Check(cmd); err != nil {
				return err
			}
			object, err := resource.Load(cmd, s, kind, &creation, args)
			if err != nil {
				return err
			}
			spec := &object.Spec
			if cluster != "" {
				spec.Cluster = cluster
			}
			if account != "" {
				spec.Access = &v1alpha1.BucketAccess{Namespace: namespace, ServiceAccount: account}
			}
			if key != "" {
				spec.EncryptionKey = key
			}
			if noVersioning {
				off := false
				spec.Versioning = &off
			}
			spec.DeleteObjects = spec.DeleteObjects || deleteObjects
			return kind.Create(cmd.Context(), s, object, &creation)
		},
	}
	creation.AddTo(cmd, "bucket")
	creation.AddFile(cmd)
	creation.Waiting.AddTo(cmd, "the bucket is there")
	set := cmd.Flags()
	set.StringVar(&cluster, "cluster", "", "`cluster` that it is for")
	set.StringVar(&account, "service-account", "", "service `account` of the pods that use it; nobody's where it is not given")
	set.StringVar(&namespace, "namespace", "", "`namespace` of the service account; default where it is not given")
	set.StringVar(&key, "encryption-key", "", "`key` of the cloud that objects are encrypted with; the cloud's own where it is not given")
	set.BoolVar(&noVersioning, "no-versioning", false, "do not keep what was overwritten or deleted")
	set.BoolVar(&deleteObjects, "delete-objects", false, "let it be deleted with all that is in it")
	k8s.Kind().CompleteFlag(s, cmd, "cluster")
	return cmd
}
