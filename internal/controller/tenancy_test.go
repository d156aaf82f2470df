package controller_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// names are what a role of an organization's administrators lists of a resource.
func names(role *rbacv1.ClusterRole, resource string) []string {
	for _, rule := range role.Rules {
		if slices.Contains(rule.Resources, resource) {
			return rule.ResourceNames
		}
	}
	return nil
}

func TestOrganizationGivesItsPeopleTheirRoles(t *testing.T) {
	t.Parallel()
	someOrganization(t, "roles")
	everybody := &rbacv1.ClusterRole{ObjectMeta: named("", "plasmacloud:org:roles")}
	eventually(t, everybody, "reads the organization", func() bool { return slices.Equal(names(everybody, "organizations"), []string{"roles"}) })
	if len(everybody.OwnerReferences) != 1 || everybody.OwnerReferences[0].Name != "roles" {
		t.Errorf("it stays when the organization goes: %v", everybody.OwnerReferences)
	}
	admins := &rbacv1.ClusterRole{ObjectMeta: named("", "plasmacloud:org:roles:admin")}
	eventually(t, admins, "there", func() bool { return len(admins.Rules) == 0 })

	someProject(t, "roles", "roles-b")
	first := someProject(t, "roles", "roles-a")
	ann := someUser(t, "roles", "roles-ann")
	someUser(t, "other", "roles-stranger")
	eventually(t, admins, "keep projects and users", func() bool {
		return slices.Equal(names(admins, "projects"), []string{"roles-a", "roles-b"}) && slices.Equal(names(admins, "users"), []string{"roles-ann"})
	})
	remove(t, first)
	remove(t, ann)
	eventually(t, admins, "keep what is left", func() bool {
		return slices.Equal(names(admins, "projects"), []string{"roles-b"}) && names(admins, "users") == nil
	})
}

func TestRolesOfAnOrganizationAreRepaired(t *testing.T) {
	t.Parallel()
	someOrganization(t, "repair")
	role := &rbacv1.ClusterRole{ObjectMeta: named("", "plasmacloud:org:repair")}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: named("", "plasmacloud:org:repair-binding")}
	get(t, role)
	uid := role.UID
	remove(t, role)
	eventually(t, role, "made again", func() bool { return role.UID != uid && len(role.Rules) == 1 })
	change(t, role, func(r *rbacv1.ClusterRole) { r.Rules[0].ResourceNames = nil })
	eventually(t, role, "one name", func() bool { return slices.Equal(names(role, "organizations"), []string{"repair"}) })
	change(t, binding, func(b *rbacv1.ClusterRoleBinding) { b.Subjects[0].Name = "org:other" })
	eventually(t, binding, "its own people", func() bool { return len(binding.Subjects) == 1 && binding.Subjects[0].Name == "org:repair" })
}

func TestOrganizationIsDeletedAfterItsProjectsAndUsers(t *testing.T) {
	t.Parallel()
	owner := someOrganization(t, "leaving")
	shop, ann := someProject(t, "leaving", "leaving-shop"), someUser(t, "leaving", "leaving-ann")
	eventually(t, owner, "one project", func() bool { return owner.Status.Projects == 1 })
	remove(t, owner)
	eventually(t, owner, "names them", func() bool {
		return says(owner.Status.Conditions, v1alpha1.ReasonHasChildren, "project leaving-shop", "user leaving-ann")
	})
	remove(t, ann)
	remove(t, shop)
	vanishes(t, shop)
	vanishes(t, owner)
}

func TestProjectMakesItsNamespace(t *testing.T) {
	t.Parallel()
	someOrganization(t, "home")
	made := someProject(t, "home", "home-web")
	if made.Status.Namespace != "project-home-web" || !says(made.Status.Conditions, v1alpha1.ReasonReady) {
		t.Errorf("status is %+v", made.Status)
	}
	namespace := &corev1.Namespace{ObjectMeta: named("", "project-home-web")}
	get(t, namespace)
	for label, want := range map[string]string{
		v1alpha1.LabelOrganization: "home", v1alpha1.LabelProject: "home-web", "pod-security.kubernetes.io/enforce": "baseline",
	} {
		if got := namespace.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	for _, name := range []string{"org-admin", "project-admin", "project-viewer"} {
		get(t, &rbacv1.Role{ObjectMeta: named(namespace.Name, name)})
		get(t, &rbacv1.RoleBinding{ObjectMeta: named(namespace.Name, name+"-binding")})
	}
	get(t, &rbacv1.ClusterRoleBinding{ObjectMeta: named("", "plasmacloud:project:home-web-binding")})
}

func TestNamespaceOfAProjectIsRepaired(t *testing.T) {
	t.Parallel()
	someOrganization(t, "mend")
	someProject(t, "mend", "mend-web")
	const home = "project-mend-web"
	t.Run("labels", func(t *testing.T) {
		namespace := &corev1.Namespace{ObjectMeta: named("", home)}
		change(t, namespace, func(n *corev1.Namespace) {
			n.Labels["pod-security.kubernetes.io/enforce"] = "privileged"
			delete(n.Labels, v1alpha1.LabelProject)
			n.Labels["somebody"] = "else"
		})
		eventually(t, namespace, "its labels", func() bool {
			return namespace.Labels["pod-security.kubernetes.io/enforce"] == "baseline" && namespace.Labels[v1alpha1.LabelProject] == "mend-web"
		})
		if namespace.Labels["somebody"] != "else" {
			t.Error("what is somebody else's was taken away")
		}
	})
	t.Run("a deleted binding", func(t *testing.T) {
		binding := &rbacv1.RoleBinding{ObjectMeta: named(home, "project-admin-binding")}
		get(t, binding)
		uid := binding.UID
		remove(t, binding)
		eventually(t, binding, "made again", func() bool { return binding.UID != uid && binding.Subjects[0].Name == "project:mend-web" })
	})
	t.Run("a changed role", func(t *testing.T) {
		role := &rbacv1.Role{ObjectMeta: named(home, "project-viewer")}
		get(t, role)
		rules := len(role.Rules)
		change(t, role, func(r *rbacv1.Role) {
			r.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}
		})
		eventually(t, role, "its rules", func() bool { return len(role.Rules) == rules })
	})
	t.Run("a binding to another role", func(t *testing.T) {
		binding := &rbacv1.RoleBinding{ObjectMeta: named(home, "project-viewer-binding")}
		var err error
		for range 20 { // the controller may be faster
			if err = kube.Delete(t.Context(), binding.DeepCopy()); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			err = kube.Create(t.Context(), &rbacv1.RoleBinding{
				ObjectMeta: named(home, binding.Name),
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "org-admin"},
			})
			if err == nil {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, binding, "its own role", func() bool { return binding.RoleRef.Name == "project-viewer" && len(binding.Subjects) == 1 })
	})
	t.Run("its cluster role", func(t *testing.T) {
		role := &rbacv1.ClusterRole{ObjectMeta: named("", "plasmacloud:project:mend-web")}
		change(t, role, func(r *rbacv1.ClusterRole) { r.Rules[0].ResourceNames = nil })
		eventually(t, role, "one name", func() bool { return slices.Equal(names(role, "projects"), []string{"mend-web"}) })
	})
}

func TestProjectWaitsForItsOrganization(t *testing.T) {
	t.Parallel()
	orphan := create(t, &v1alpha1.Project{ObjectMeta: named("", "orphan"), Spec: v1alpha1.ProjectSpec{Organization: "parents"}})
	eventually(t, orphan, "says so", func() bool {
		return orphan.Status.Phase == v1alpha1.PhasePending && says(orphan.Status.Conditions, v1alpha1.ReasonParentMissing, "parents")
	})
	err := kube.Get(t.Context(), client.ObjectKey{Name: "project-orphan"}, &corev1.Namespace{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("there is a namespace for the people of nobody: %v", err)
	}
	someOrganization(t, "parents")
	eventually(t, orphan, "Running", func() bool { return orphan.Status.Phase == v1alpha1.PhaseRunning })
}

func TestProjectIsDeletedAfterWhatIsInIt(t *testing.T) {
	t.Parallel()
	someOrganization(t, "closing")
	shop := someProject(t, "closing", "closing-shop")
	const home = "project-closing-shop"
	create(t, &v1alpha1.Account{ObjectMeta: named(home, "local")})
	vpc := create(t, &v1alpha1.Network{ObjectMeta: named(home, "default")})
	cluster := someCluster(t, home, "dev", 1)
	eventually(t, vpc, "one cluster", func() bool { return vpc.Status.Clusters == 1 })
	remove(t, shop)
	eventually(t, shop, "names them", func() bool {
		return shop.Status.Phase == v1alpha1.PhaseDeleting && says(shop.Status.Conditions, v1alpha1.ReasonHasChildren, "cluster dev", "network default")
	})
	remove(t, cluster)
	eventually(t, shop, "names what is left", func() bool {
		return says(shop.Status.Conditions, v1alpha1.ReasonHasChildren, "still has clusters or networks: network default;")
	})
	namespace := &corev1.Namespace{ObjectMeta: named("", home)}
	if get(t, namespace); !namespace.DeletionTimestamp.IsZero() {
		t.Error("the namespace goes before what is in it")
	}
	remove(t, vpc)
	vanishes(t, namespace)
	vanishes(t, shop)
}

// amount is what a status says of use, in one line.
func amount(u *v1alpha1.Quota) string {
	if u == nil {
		return "nothing"
	}
	return fmt.Sprintf("%d clusters %d nodes %s vcpu %s memory %d volumes", *u.Clusters, *u.Nodes, u.VCPU.String(), u.Memory.String(), *u.Volumes)
}

func TestUseIsShown(t *testing.T) {
	t.Parallel()
	owner := someOrganization(t, "using")
	web, shop := someProject(t, "using", "using-web"), someProject(t, "using", "using-shop")
	shows := func(object client.Object, used func() *v1alpha1.Quota, want string) {
		t.Helper()
		eventually(t, object, want, func() bool { return amount(used()) == want })
	}
	ofWeb, ofShop := func() *v1alpha1.Quota { return web.Status.Used }, func() *v1alpha1.Quota { return shop.Status.Used }
	ofOwner := func() *v1alpha1.Quota { return owner.Status.Used }
	shows(web, ofWeb, "0 clusters 0 nodes 0 vcpu 0 memory 0 volumes")

	someCluster(t, "project-using-web", "a", 2)
	b := someCluster(t, "project-using-web", "b", 1)
	someCluster(t, "project-using-shop", "c", 3)
	shows(web, ofWeb, "2 clusters 3 nodes 6 vcpu 24Gi memory 0 volumes")
	shows(shop, ofShop, "1 clusters 3 nodes 6 vcpu 24Gi memory 0 volumes")
	shows(owner, ofOwner, "3 clusters 6 nodes 12 vcpu 48Gi memory 0 volumes")

	create(t, &v1alpha1.NodeGroup{ObjectMeta: named("project-using-web", "b-workers"), Spec: v1alpha1.NodeGroupSpec{
		Cluster: "b", Group: "workers", Replicas: 5, Template: v1alpha1.NodeGroupTemplate{MaxReplicas: 100, InstanceType: "u1.large"},
	}})
	shows(web, ofWeb, "2 clusters 7 nodes 14 vcpu 56Gi memory 0 volumes")
	remove(t, b)
	shows(web, ofWeb, "1 clusters 2 nodes 4 vcpu 16Gi memory 0 volumes")
	shows(owner, ofOwner, "2 clusters 5 nodes 10 vcpu 40Gi memory 0 volumes")

	forged := web.DeepCopy()
	forged.Status.Used.Clusters = new(int32)
	if err := kube.Status().Patch(t.Context(), forged, client.MergeFrom(web)); err != nil {
		t.Fatal(err)
	}
	shows(web, ofWeb, "1 clusters 2 nodes 4 vcpu 16Gi memory 0 volumes")
}

func TestUseIsCountedOnceForManyChanges(t *testing.T) {
	t.Parallel()
	someOrganization(t, "busy")
	busy := someProject(t, "busy", "busy-web")
	eventually(t, busy, "counted", func() bool { return busy.Status.Used != nil })
	watch, err := kube.Watch(t.Context(), &v1alpha1.ProjectList{}, client.MatchingFields{"metadata.name": busy.Name})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	const clusters = 100
	began := time.Now()
	for i := range clusters {
		someCluster(t, "project-busy-web", fmt.Sprintf("c%d", i), 1)
	}
	took := time.Since(began)
	writes := 0
	for changed := range watch.ResultChan() {
		writes++
		if project, ok := changed.Object.(*v1alpha1.Project); ok && *project.Status.Used.Clusters == clusters {
			break
		}
	}
	if most := int(took.Seconds()) + 4; writes > most {
		t.Errorf("%d writes for %d clusters in %v, want %d at most", writes, clusters, took, most)
	}
}
