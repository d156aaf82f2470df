// Package v1alpha1 is the API of PlasmaCloud, the group plasmacloud.io: everything that a user asks for, and what became
// of it. One file a kind, each with its spec, its status and the rules that the API server keeps. Conditions, phases
// and labels that kinds share are in shared.go.
//
// +kubebuilder:object:generate=true
// +groupName=plasmacloud.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of these kinds.
var GroupVersion = schema.GroupVersion{Group: "plasmacloud.io", Version: "v1alpha1"}

// AddToScheme makes the kinds known to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Organization{}, &OrganizationList{},
		&Project{}, &ProjectList{},
		&User{}, &UserList{},
		&AccessToken{}, &AccessTokenList{},
		&Account{}, &AccountList{},
		&Network{}, &NetworkList{},
		&Cluster{}, &ClusterList{},
		&NodeGroup{}, &NodeGroupList{},
		&Machine{}, &MachineList{},
		&Task{}, &TaskList{},
		&Bucket{}, &BucketList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
