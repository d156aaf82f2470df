package datastore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	copyPage = 100     // keys in a transaction: etcd takes 128
	copySize = 1 << 20 // bytes in a transaction: etcd takes one and a half million
)

// Copy brings everything below from's prefix below to's, where nothing else is afterwards. It is for a tenant whose
// control plane stands still. Keys stay the same below the prefix, which should be the same too: API servers that encrypt
// may bind a value to its key. Leases are dropped, so that what would have expired (events) stays until it is deleted. It
// returns how many keys it copied.
func Copy(ctx context.Context, config Config, from, to Credentials) (int64, error) {
	source, err := dial(config, from)
	if err != nil {
		return 0, err
	}
	defer func() { _ = source.Close() }()
	target, err := dial(config, to)
	if err != nil {
		return 0, err
	}
	defer func() { _ = target.Close() }()
	if err := removeKeys(ctx, target, to.Prefix+"/"); err != nil {
		return 0, err
	}
	copied, err := copyKeys(ctx, source, target, from.Prefix+"/", to.Prefix+"/")
	if err != nil {
		return copied, fmt.Errorf("copy keys: %w", err)
	}
	// What changed meanwhile is missing in the copy.
	count, err := target.Get(ctx, to.Prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return copied, err
	}
	now, err := source.Get(ctx, from.Prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return copied, err
	}
	if count.Count != now.Count {
		return copied, fmt.Errorf("copy keys: there are %d keys, and %d in the copy: the control plane was not stopped", now.Count, count.Count)
	}
	return copied, nil
}

func copyKeys(ctx context.Context, source, target *clientv3.Client, from, to string) (int64, error) {
	var copied, revision int64
	key, end := from, clientv3.GetPrefixRangeEnd(from)
	for {
		// All pages are of one revision.
		page, err := source.Get(ctx, key, clientv3.WithRange(end), clientv3.WithLimit(copyPage), clientv3.WithRev(revision))
		if err != nil {
			return copied, err
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		var puts []clientv3.Op
		size := 0
		flush := func() error {
			if len(puts) == 0 {
				return nil
			}
			_, err := target.Txn(ctx).Then(puts...).Commit()
			copied += int64(len(puts))
			puts, size = nil, 0
			return err
		}
		for _, kv := range page.Kvs {
			if size+len(kv.Key)+len(kv.Value) > copySize {
				if err := flush(); err != nil {
					return copied, err
				}
			}
			puts = append(puts, clientv3.OpPut(to+strings.TrimPrefix(string(kv.Key), from), string(kv.Value)))
			size += len(kv.Key) + len(kv.Value)
		}
		if err := flush(); err != nil {
			return copied, err
		}
		if !page.More {
			return copied, nil
		}
		key = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// dial connects as a tenant does.
func dial(config Config, c Credentials) (*clientv3.Client, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c.CA) {
		return nil, errors.New("connect to datastore: no certificate of an authority")
	}
	pair, err := tls.X509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("connect to datastore: %w", err)
	}
	client, err := clientv3.New(clientConfig(config, c.Endpoints, &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, Certificates: []tls.Certificate{pair}}))
	if err != nil {
		return nil, fmt.Errorf("connect to datastore: %w", err)
	}
	return client, nil
}
