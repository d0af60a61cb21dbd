package server

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/awsclient"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/store/pebble"
)

// feedDepthMax is how many messages of one <lambda, priority> are fed to the queue in memory; what is due
// beyond that waits in the store. The queue itself holds more, so that what is given back by workers finds
// room.
const (
	feedDepthMax  = 8192
	queueDepthMax = 2 * feedDepthMax
)

// windowRemote is how far ahead a partition of a store on AWS is read. A scan costs read units whether it
// finds anything or not, so there are few; but it comes every half of this, which has to be less than how
// near to its due time a task goes straight to its queue (10 s): a task that another process stored is then
// always found in time.
const windowRemote = 16 * time.Second

// shardsRemote is how many shards a new lambda has with DynamoDB, where a key takes 1,000 write units a
// second, and a partition costs next to nothing.
const shardsRemote = 4

// drivers are what a node runs on. A nil buffer is none.
type drivers struct {
	store  store.Driver
	queue  queue.Driver
	buffer buffer.Buffer
	aws    *awsclient.Clients // nil without AWS

	node *node.Node // what queues on AWS ask for the names of lambdas; set before anything is sent
}

// open makes the drivers and the node.
func (s *Server) open(ctx context.Context) error {
	pods, err := s.openCluster(ctx)
	if err != nil {
		return err
	}
	d, err := openDrivers(ctx, &s.config, s.files, s.metrics)
	if err != nil {
		return errors.Join(err, d.close())
	}
	c := s.nodeConfig(d)
	s.join(&c, pods)
	d.node, err = node.New(ctx, c)
	if err == nil {
		err = s.checkQueues(ctx, d)
	}
	if err != nil {
		return errors.Join(awsclient.Explain(err), d.close())
	}
	s.drivers, s.node = d, d.node
	return nil
}

// openDrivers returns what it has opened also with an error.
func openDrivers(ctx context.Context, c *Config, files descriptors, m *node.Metrics) (d *drivers, err error) {
	d = &drivers{}
	if c.onAWS() {
		if err := d.openAWS(ctx, c, m); err != nil {
			return d, err
		}
	}
	if c.Store == StorePebble {
		d.store, err = pebble.Open(c.DataDir, pebble.Config{Logger: c.Log, AcceptLoss: c.AcceptLoss, OpenFilesMax: files.store, Observer: pebble.Observer{Synced: m.Synced}})
		if err != nil {
			d.store = nil // not a nil pointer in an interface
			return d, err
		}
	}
	if c.Queue == QueueMemory {
		d.queue = queuemem.New(clock.Real(), queuemem.Config{DepthMax: queueDepthMax})
	}
	return d, nil
}

func (s *Server) nodeConfig(d *drivers) node.Config {
	c := node.Config{
		Store: d.store, Queue: d.queue, Buffer: d.buffer, Clock: clock.Real(), Log: s.config.Log, Roles: s.config.Roles, Metrics: s.metrics,
		Name:            hostName(),
		PayloadBytesMax: s.config.PayloadBytesMax, Horizon: s.config.Horizon, Window: s.config.Window,
		DeliverDirect: s.config.DeliverDirect, NoMatch: s.config.NoMatch, NoGrow: s.config.NoGrow, LeasesOnly: s.config.LeasesOnly,
		InboundRate: s.config.InboundRate, InboundConcurrency: s.config.InboundConcurrency,
	}
	if s.config.Store == StoreDynamoDB {
		c.Window = cmp.Or(c.Window, windowRemote)
		c.ShardsDefault = shardsRemote
		c.Unregister = func(lambda string) string {
			return dynamo.DeleteControlCommand(s.config.AWSPrefix, catalog.RegistrationKind, lambda)
		}
	}
	if s.config.Queue == QueueMemory {
		c.QueueDepthMax = feedDepthMax
	}
	return c
}

// hostName is what this process is called among others.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// close closes what a node that could not be made would have closed, and the rest.
func (d *drivers) close() error {
	var errs []error
	if d.buffer != nil {
		errs = append(errs, d.buffer.Close())
	}
	if d.queue != nil {
		errs = append(errs, d.queue.Close())
	}
	if d.store != nil {
		errs = append(errs, d.store.Close())
	}
	d.release()
	return errors.Join(errs...)
}

// release is for what lies below the drivers, when they are closed.
func (d *drivers) release() {
	if d.aws != nil {
		d.aws.Close()
	}
}
