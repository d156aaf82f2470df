package admission

import (
	"context"
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/admission/ledger"
)

func account(ctx context.Context, q *question, object, _ *v1alpha1.Account) error {
	if q.deletes() {
		return q.deleteAccount(ctx, object)
	}
	return q.atHome(ctx, "Account", object)
}

func network(ctx context.Context, q *question, object, _ *v1alpha1.Network) error {
	switch {
	case q.deletes():
		return q.deleteNetwork(ctx, object)
	case !q.creates():
		return nil // account and range cannot change
	}
	home, wrong, err := q.home(ctx, object)
	if err != nil || wrong != nil {
		return orInvalid(err, "Network", object, wrong)
	}
	from := &v1alpha1.Account{}
	wrong, err = q.parent(ctx, field.NewPath("spec", "account"), object.Namespace, object.Spec.Account, from,
		fmt.Sprintf("create it with `cloud account create %s`, or name another one", object.Spec.Account))
	if err != nil || wrong != nil {
		return orInvalid(err, "Network", object, wrong)
	}
	if err := invalid("Network", object, foreign(object, from)); err != nil {
		return err
	}
	return q.claimRange(ctx, home, object)
}

// foreign are options of another cloud than that of the network's account.
func foreign(object *v1alpha1.Network, from *v1alpha1.Account) field.ErrorList {
	var wrong field.ErrorList
	for _, options := range []struct {
		name     string
		given    bool
		provider v1alpha1.Provider
	}{
		{"aws", object.Spec.AWS != nil, v1alpha1.ProviderAWS},
		{"gcp", object.Spec.GCP != nil, v1alpha1.ProviderGCP},
		{"azure", object.Spec.Azure != nil, v1alpha1.ProviderAzure},
	} {
		if options.given && from.Spec.Provider != options.provider {
			wrong = append(wrong, field.Forbidden(field.NewPath("spec", options.name),
				fmt.Sprintf("account %s is of provider %s; remove it, or name an account of provider %s", from.Name, from.Spec.Provider, options.provider)))
		}
	}
	return wrong
}

// orInvalid is the failure, or the refusal.
func orInvalid(err error, kind string, object client.Object, wrong *field.Error) error {
	if err != nil {
		return err
	}
	return invalid(kind, object, add(nil, wrong))
}

// neighbour is another network of the same account, or the promise of one.
type neighbour struct{ name, cidr string }

// claimRange refuses a network whose addresses another network of the account has, and promises them to this one.
func (q *question) claimRange(ctx context.Context, home *v1alpha1.Project, object *v1alpha1.Network) error {
	return q.ledger.Change(ctx, home.Spec.Organization, func(promises []ledger.Promise) ([]ledger.Promise, error) {
		neighbours, err := q.neighbours(ctx, home.Name, object, promises)
		if err != nil {
			return nil, err
		}
		if wrong := overlap(object.Spec.CIDR, neighbours); wrong != nil {
			return nil, invalid("Network", object, field.ErrorList{wrong})
		}
		if q.dryRun {
			return promises, nil
		}
		return append(promises, ledger.Promise{
			Project: home.Name, Kind: "Network", Name: object.Name, Account: object.Spec.Account, CIDR: object.Spec.CIDR,
		}), nil
	})
}

func (q *question) neighbours(ctx context.Context, project string, object *v1alpha1.Network, promises []ledger.Promise) ([]neighbour, error) {
	var networks v1alpha1.NetworkList
	if err := q.world.List(ctx, &networks, client.InNamespace(object.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	var neighbours []neighbour
	for i := range networks.Items {
		other := &networks.Items[i]
		if other.Spec.Account == object.Spec.Account && other.Name != object.Name {
			neighbours = append(neighbours, neighbour{other.Name, other.Spec.CIDR})
		}
	}
	for _, p := range promises {
		if p.Project == project && p.Kind == "Network" && p.Account == object.Spec.Account && p.Name != object.Name {
			neighbours = append(neighbours, neighbour{p.Name, p.CIDR})
		}
	}
	return neighbours, nil
}

// overlap finds a neighbour whose range overlaps, and offers one that is free.
func overlap(cidr string, neighbours []neighbour) *field.Error {
	mine, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil // the schema's to tell
	}
	var taken []netip.Prefix
	var met *neighbour
	for _, other := range neighbours {
		theirs, err := netip.ParsePrefix(other.cidr)
		if err != nil {
			continue
		}
		taken = append(taken, theirs)
		if met == nil && theirs.Overlaps(mine) {
			met = &neighbour{other.name, other.cidr}
		}
	}
	if met == nil {
		return nil
	}
	remedy := "choose a range apart from it"
	if free, ok := freeRange(mine.Bits(), taken); ok && mine.Addr().Is4() {
		remedy = "use another range, such as " + free.String()
	}
	return field.Invalid(field.NewPath("spec", "cidr"), cidr, fmt.Sprintf("it overlaps with %s of network %s of the same account; %s", met.cidr, met.name, remedy))
}

// freeRange is the first range of a size within 10.0.0.0/8 that is not taken.
func freeRange(bits int, taken []netip.Prefix) (netip.Prefix, bool) {
	if bits < 8 || bits > 32 {
		return netip.Prefix{}, false
	}
	const first, beyond = uint64(10) << 24, uint64(11) << 24
candidates:
	for start := first; start < beyond; {
		candidate := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(start >> 24), byte(start >> 16), byte(start >> 8), byte(start)}), bits)
		for _, other := range taken {
			if other.Addr().Is4() && other.Overlaps(candidate) {
				start += uint64(1) << (32 - min(bits, other.Bits())) // behind the larger of the two
				continue candidates
			}
		}
		return candidate, true
	}
	return netip.Prefix{}, false
}
