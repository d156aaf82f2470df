package datastore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// pageSize is how many keys are deleted at once: enough to be quick, and few enough that other tenants do not notice.
const pageSize = 2000

// enableAuth makes etcd ask who a client is. Until it does, everybody with a certificate is root: so this comes before
// the first tenant.
func enableAuth(ctx context.Context, client *clientv3.Client) error {
	status, err := client.AuthStatus(ctx)
	if err != nil {
		return err
	}
	if status.Enabled {
		return nil
	}
	if err := ensureRole(ctx, client, rootUser, nil); err != nil {
		return err
	}
	if err := ensureUser(ctx, client, rootUser, rootUser); err != nil {
		return err
	}
	if _, err := client.AuthEnable(ctx); err != nil {
		return fmt.Errorf("switch authentication on: %w", err)
	}
	return nil
}

// ensureTenant makes a tenant's user, who may read and write its prefix and nothing else.
func ensureTenant(ctx context.Context, client *clientv3.Client, tenant string) error {
	name := userOf(tenant)
	// The role first: a user never has more than it should, nor a moment in which it has a role that is not there.
	permission := &authpb.Permission{PermType: authpb.READWRITE, Key: []byte(prefixOf(tenant) + "/"), RangeEnd: []byte(clientv3.GetPrefixRangeEnd(prefixOf(tenant) + "/"))}
	if err := ensureRole(ctx, client, name, permission); err != nil {
		return err
	}
	return ensureUser(ctx, client, name, name)
}

// ensureRole brings a role to one permission, or to none that it states.
func ensureRole(ctx context.Context, client *clientv3.Client, role string, want *authpb.Permission) error {
	have, err := client.RoleGet(ctx, role)
	if errors.Is(err, rpctypes.ErrRoleNotFound) {
		have = &clientv3.AuthRoleGetResponse{}
		_, err = client.RoleAdd(ctx, role)
		if errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("make role %s: %w", role, err)
	}
	found := want == nil
	for _, permission := range have.Perm {
		if want != nil && permission.PermType == want.PermType && string(permission.Key) == string(want.Key) && string(permission.RangeEnd) == string(want.RangeEnd) {
			found = true
			continue
		}
		if _, err := client.RoleRevokePermission(ctx, role, string(permission.Key), string(permission.RangeEnd)); err != nil && !errors.Is(err, rpctypes.ErrPermissionNotGranted) {
			return fmt.Errorf("revoke permission of role %s: %w", role, err)
		}
	}
	if found {
		return nil
	}
	if _, err := client.RoleGrantPermission(ctx, role, string(want.Key), string(want.RangeEnd), clientv3.PermissionType(want.PermType)); err != nil {
		return fmt.Errorf("grant permission to role %s: %w", role, err)
	}
	return nil
}

// ensureUser brings a user, who has no password, to one role.
func ensureUser(ctx context.Context, client *clientv3.Client, user, role string) error {
	have, err := client.UserGet(ctx, user)
	if errors.Is(err, rpctypes.ErrUserNotFound) {
		have = &clientv3.AuthUserGetResponse{}
		_, err = client.UserAddWithOptions(ctx, user, "", &clientv3.UserAddOptions{NoPassword: true})
		if errors.Is(err, rpctypes.ErrUserAlreadyExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("make user %s: %w", user, err)
	}
	for _, other := range have.Roles {
		if other == role {
			continue
		}
		if _, err := client.UserRevokeRole(ctx, user, other); err != nil && !errors.Is(err, rpctypes.ErrRoleNotGranted) {
			return fmt.Errorf("revoke role of user %s: %w", user, err)
		}
	}
	if slices.Contains(have.Roles, role) {
		return nil
	}
	if _, err := client.UserGrantRole(ctx, user, role); err != nil {
		return fmt.Errorf("grant role to user %s: %w", user, err)
	}
	return nil
}

// removeTenant takes away the user, so that nothing is written any more, then the keys, and the role last: as long as
// anything is left, Tenants tells of it.
func removeTenant(ctx context.Context, client *clientv3.Client, tenant string) error {
	name := userOf(tenant)
	if _, err := client.UserDelete(ctx, name); err != nil && !errors.Is(err, rpctypes.ErrUserNotFound) {
		return fmt.Errorf("remove user %s: %w", name, err)
	}
	if err := removeKeys(ctx, client, prefixOf(tenant)+"/"); err != nil {
		return err
	}
	if _, err := client.RoleDelete(ctx, name); err != nil && !errors.Is(err, rpctypes.ErrRoleNotFound) {
		return fmt.Errorf("remove role %s: %w", name, err)
	}
	return nil
}

// removeKeys deletes everything below a prefix, page by page, until it finds nothing.
func removeKeys(ctx context.Context, client *clientv3.Client, prefix string) error {
	end := clientv3.GetPrefixRangeEnd(prefix)
	for {
		page, err := client.Get(ctx, prefix, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(pageSize))
		if err != nil {
			return fmt.Errorf("list keys below %s: %w", prefix, err)
		}
		if len(page.Kvs) == 0 {
			return nil
		}
		last := string(page.Kvs[len(page.Kvs)-1].Key)
		if _, err := client.Delete(ctx, prefix, clientv3.WithRange(last+"\x00")); err != nil {
			return fmt.Errorf("delete keys below %s: %w", prefix, err)
		}
	}
}

// Holding is what a tenant has in an etcd.
type Holding struct {
	Tenant string
	User   bool // it has a user, and with it access
	Role   bool
	Keys   int64
}

// holdings finds all tenants: by their users, their roles, and the keys that are there.
func holdings(ctx context.Context, client *clientv3.Client) ([]Holding, error) {
	found := map[string]*Holding{}
	of := func(tenant string) *Holding {
		if found[tenant] == nil {
			found[tenant] = &Holding{Tenant: tenant}
		}
		return found[tenant]
	}
	users, err := client.UserList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	for _, user := range users.Users {
		if tenant, ok := strings.CutPrefix(user, userPrefix); ok {
			of(tenant).User = true
		}
	}
	roles, err := client.RoleList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list roles: %w", err)
	}
	for _, role := range roles.Roles {
		if tenant, ok := strings.CutPrefix(role, userPrefix); ok {
			of(tenant).Role = true
		}
	}
	for from, end := prefixes, clientv3.GetPrefixRangeEnd(prefixes); ; {
		first, err := client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(1))
		if err != nil {
			return nil, fmt.Errorf("list prefixes: %w", err)
		}
		if len(first.Kvs) == 0 {
			break
		}
		tenant, _, _ := strings.Cut(strings.TrimPrefix(string(first.Kvs[0].Key), prefixes), "/")
		below := prefixOf(tenant) + "/"
		count, err := client.Get(ctx, below, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return nil, fmt.Errorf("count keys below %s: %w", below, err)
		}
		of(tenant).Keys = count.Count
		from = clientv3.GetPrefixRangeEnd(below)
	}
	var all []Holding
	for _, holding := range found {
		all = append(all, *holding)
	}
	slices.SortFunc(all, func(a, b Holding) int { return strings.Compare(a.Tenant, b.Tenant) })
	return all, nil
}
