package k8shost

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/controlplane"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// SaveSnapshot saves a snapshot of the cluster whose server runs in dir.
func SaveSnapshot(ctx context.Context, dir datadir.Dir, name string) (etcd.Snapshot, error) {
	if _, running := dir.Launcher(); !running {
		return etcd.Snapshot{}, fmt.Errorf("no server runs in %s: a snapshot is taken of a running one", dir.Path())
	}
	return saveSnapshot(ctx, dir, name)
}

func saveSnapshot(ctx context.Context, dir datadir.Dir, name string) (etcd.Snapshot, error) {
	client, err := etcd.Connect(etcdCredentials(pki.New(dir.TLS(), clock.RealClock{})), controlplane.EtcdClientURL("127.0.0.1"))
	if err != nil {
		return etcd.Snapshot{}, err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeout(ctx, snapshotPatience)
	defer cancel()
	return etcd.Save(ctx, client, dir.Snapshots(), name)
}

func etcdCredentials(store *pki.Store) etcd.Credentials {
	return etcd.Credentials{
		CA: store.CAPath(pki.EtcdCA), Cert: store.CertPath(pki.APIServerEtcdClient), Key: store.KeyPath(pki.APIServerEtcdClient),
	}
}

// snapshots takes scheduled snapshots of the embedded etcd.
func (s *server) snapshots() component.Component {
	return component.NewRoutine("snapshots", s.log, nil, func(ctx context.Context) error {
		if s.config.EtcdSnapshotScheduleCron == "" || !s.embeddedEtcd() {
			<-ctx.Done()
			return nil
		}
		schedule, err := cron.ParseStandard(s.config.EtcdSnapshotScheduleCron)
		if err != nil {
			return err
		}
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Until(schedule.Next(time.Now()))):
			}
			if err := s.takeScheduledSnapshot(ctx); err != nil {
				s.log.Error("cannot take a scheduled snapshot", "error", err)
			}
		}
	})
}

const (
	scheduledPrefix  = "scheduled-"
	snapshotPatience = 10 * time.Minute
)

func (s *server) takeScheduledSnapshot(ctx context.Context) error {
	snapshot, err := saveSnapshot(ctx, s.dir, scheduledPrefix+time.Now().UTC().Format("20060102-150405"))
	if err != nil {
		return err
	}
	s.log.Info("snapshot taken", "name", snapshot.Name, "bytes", snapshot.Size)
	if s.config.EtcdSnapshotRetention == 0 {
		return nil
	}
	return etcd.Prune(s.dir.Snapshots(), scheduledPrefix, s.config.EtcdSnapshotRetention)
}
