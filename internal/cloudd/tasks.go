package cloudd

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	taskcontroller "plasmacloud.io/plasmacloud/internal/controller/task"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/cloud"
	"plasmacloud.io/plasmacloud/internal/provisioner/fake"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/task/memory"
	taskmetrics "plasmacloud.io/plasmacloud/internal/task/metrics"
	"plasmacloud.io/plasmacloud/internal/task/record"
	"plasmacloud.io/plasmacloud/internal/task/redis"
)

// setupTasks gives the controllers a queue to put tasks into, and the workers one to take them from.
func (d *Daemon) setupTasks() error {
	if !d.config.has(RoleControllers) && !d.config.has(RoleWorkers) {
		return nil
	}
	queue, err := d.queue()
	if err != nil {
		return err
	}
	if err := taskmetrics.RegisterQueue(metrics.Registry, queue, d.log); err != nil {
		return err
	}
	if d.config.has(RoleControllers) {
		controller := &taskcontroller.Reconciler{Client: d.manager.GetClient(), Queue: task.Adder{Queue: queue}, Now: time.Now}
		if err := controller.SetupWithManager(d.manager); err != nil {
			return err
		}
	}
	if d.config.has(RoleWorkers) {
		return d.setupWorkers(queue)
	}
	return d.manager.Add(always(func(ctx context.Context) error {
		<-ctx.Done()
		return queue.Close()
	}))
}

// queue is one that tells how much waits in it.
type queue interface {
	task.Queue
	taskmetrics.Queue
}

func (d *Daemon) queue() (queue, error) {
	if d.config.Queue == QueueMemory {
		return memory.New(clock.RealClock{}, d.log), nil
	}
	options, err := goredis.ParseURL(d.config.RedisURL)
	if err != nil {
		return nil, errors.New("CLOUDD_REDIS_URL is no address of a Redis; it looks like redis://user:password@host:6379/0")
	}
	return redis.New(redis.Config{
		Address: options.Addr, Username: options.Username, Password: options.Password, DB: options.DB, TLS: options.TLSConfig,
		Partitions: d.config.Shards,
	}, d.log)
}

func (d *Daemon) setupWorkers(queue task.Queue) error {
	observer, err := taskmetrics.NewWorker(metrics.Registry)
	if err != nil {
		return err
	}
	worker, err := task.NewWorker(task.Config{
		Record:   record.New(d.manager.GetClient(), d.manager.GetAPIReader(), clock.RealClock{}),
		Planner:  d.planner(),
		Identity: d.Identity, Version: d.Version, Clock: clock.RealClock{}, Log: d.log, Observer: observer,
	})
	if err != nil {
		return fmt.Errorf("make worker: %w", err)
	}
	run := func(ctx context.Context) error {
		err := queue.Run(ctx, worker.Handle, task.Options{Concurrency: d.config.Workers, Shard: d.config.shard()})
		return errors.Join(err, queue.Close()) // what is under way has ended by then
	}
	if d.config.Queue == QueueMemory {
		return d.manager.Add(leading(run)) // the queue is where the controllers are
	}
	return d.manager.Add(always(run))
}

// planner knows the steps of all tasks.
func (d *Daemon) planner() task.Planner {
	kinds := provisioner.Kinds{Clusters: d.provisioners()}
	if d.clouds != nil {
		stacks := cloud.Stacks{Provisioner: d.clouds.provisioner}
		kinds.Others = map[string]task.Planner{"Network": stacks, "Bucket": stacks}
	}
	return kinds
}

// provisioners know the types of clusters.
func (d *Daemon) provisioners() provisioner.Set {
	set := provisioner.Set{
		v1alpha1.ClusterHosted: d.hosted.provisioner,
		v1alpha1.ClusterFake:   fake.New(clock.RealClock{}, d.resolveVersion, d.config.FakeStep),
	}
	for kind, each := range d.machines.byType {
		set[kind] = each
	}
	if d.clouds != nil {
		for _, kind := range []v1alpha1.ClusterType{v1alpha1.ClusterEKS, v1alpha1.ClusterGKE, v1alpha1.ClusterAKS} {
			set[kind] = d.clouds.provisioner
		}
	}
	return set
}

// resolveVersion turns what a user wrote into a version of the catalogue.
func (d *Daemon) resolveVersion(want string) (string, error) {
	offered, err := d.offers.get()
	if err != nil {
		return "", err
	}
	return offered.ResolveVersion(want)
}
