package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/awsclient"
	"github.com/kinesin-io/kinesin/internal/blobplace"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/feature/backup"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/otlp"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/store/pebble"
)

// feedDepthMax is how many messages of one <lambda, priority> are put on the queue in memory; more due tasks
// wait in the store. The queue holds more, so that there is room for what workers return.
const (
	feedDepthMax  = 8192
	queueDepthMax = 2 * feedDepthMax
)

// windowRemote is how far ahead a partition of a store on AWS is read. Every scan costs read units, so there
// are few of them. One comes every half of the window, which must be less than how near its due time a task
// goes straight to its queue (10 s): then a task that another process stored is always found in time.
const windowRemote = 16 * time.Second

// shardsRemote is how many shards a new lambda has on DynamoDB, where a key takes 1,000 write units per
// second and a partition costs next to nothing.
const shardsRemote = 4

// drivers are what a node runs on. buffer may be nil.
type drivers struct {
	store  store.Driver
	queue  queue.Driver
	buffer buffer.Buffer
	aws    *awsclient.Clients // nil without AWS
	blobs  blobplace.Place    // nil: none

	place    *backup.Place              // of backups; nil: none
	shipper  *backup.Shipper            // nil: none
	backedUp *atomic.Pointer[time.Time] // up to when the place has all

	node *node.Node // from which queues on AWS get the names of lambdas; set before anything is sent
}

// open creates the drivers and the node.
func (s *Server) open(ctx context.Context, asked credentials) error {
	pods, err := s.openCluster(ctx)
	if err != nil {
		return err
	}
	d, err := openDrivers(ctx, &s.config, s.files, s.metrics, newBackupSeries(s.metrics))
	if err != nil {
		return errors.Join(err, d.close())
	}
	c := s.nodeConfig(d)
	s.join(&c, pods)
	if err := s.export(ctx, &c); err != nil {
		return errors.Join(err, d.close())
	}
	err = s.identify(ctx, &c, asked)
	if err == nil {
		d.node, err = node.New(ctx, c)
	}
	if err == nil {
		err = s.checkQueues(ctx, d)
	}
	if err != nil {
		return errors.Join(awsclient.Explain(err), d.close())
	}
	s.drivers, s.node = d, d.node
	return nil
}

// identify configures who may do what, and where that is recorded.
func (s *Server) identify(ctx context.Context, c *node.Config, asked credentials) error {
	c.Audit = &node.AuditConfig{Keep: s.config.AuditKeep}
	if asked.policy != nil {
		c.Defined = func(name string) (access.Grants, bool) { return asked.policy.Get().Grants(name) }
	}
	to := s.config.AuditTo
	if s.config.OTLPEndpoint != "" {
		var err error
		s.collector, err = otlp.NewAuditLog(ctx, s.config.OTLPEndpoint, func(err error) {
			s.config.Log.WarnContext(ctx, "OpenTelemetry collector did not take audit records; the store keeps them", slog.Any("error", err))
		})
		if err != nil {
			return err
		}
	}
	c.Audit.Written = func(r audit.Record) {
		if to != nil {
			_ = json.NewEncoder(to).Encode(r) // nobody to tell
		}
		if s.collector != nil {
			s.collector.Write(r)
		}
	}
	return nil
}

// closeCollector sends the last audit records to the collector.
func (s *Server) closeCollector() {
	if s.collector == nil {
		return
	}
	ctx, cancel := clock.Within(context.Background(), clock.Real(), collectorCloseMax)
	defer cancel()
	if err := s.collector.Close(ctx); err != nil {
		s.config.Log.WarnContext(ctx, "OpenTelemetry collector did not take the last audit records; the store keeps them", slog.Any("error", err))
	}
}

// openDrivers opens the drivers. With an error it returns those it has opened.
func openDrivers(ctx context.Context, c *Config, files descriptors, m *node.Metrics, b backupSeries) (d *drivers, err error) {
	d = &drivers{}
	if c.onAWS() {
		if err := d.openAWS(ctx, c, m); err != nil {
			return d, err
		}
	}
	if c.Store == StorePebble {
		identity, err := backup.ReadIdentity(c.DataDir)
		if err != nil {
			return d, err
		}
		d.store, err = pebble.Open(c.DataDir, pebble.Config{
			Logger: c.Log, AcceptLoss: c.AcceptLoss, OpenFilesMax: files.store, Observer: pebble.Observer{Synced: m.Synced},
		})
		if err != nil {
			d.store = nil // not a nil pointer in an interface
			return d, err
		}
		if c.BackupTo != "" {
			if err := d.openBackup(ctx, c, identity, b); err != nil {
				return d, err
			}
		}
	}
	if c.Blobs != "" {
		if d.blobs, err = blobplace.Open(ctx, c.Blobs); err != nil {
			d.blobs = nil // not a nil pointer in an interface
			return d, fmt.Errorf("%w: blobs: %w", ErrConfig, err)
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
		Debug:           node.Debug{Log: s.config.LogControl, Settings: func() any { return s.config.settings() }},
		Name:            hostName(),
		PayloadBytesMax: s.config.PayloadBytesMax, Horizon: s.config.Horizon, Window: s.config.Window,
		DeliverDirect: s.config.DeliverDirect, NoMatch: s.config.NoMatch, NoGrow: s.config.NoGrow, LeasesOnly: s.config.LeasesOnly,
		InboundRate: s.config.InboundRate, InboundConcurrency: s.config.InboundConcurrency,
		Bounds: catalog.Bounds{Lambdas: s.config.LambdasMax, LambdaPartitions: s.config.LambdaPartitionsMax, Partitions: s.config.PartitionsMax},
	}
	if slices.Contains(s.config.Roles, RoleTargets) {
		c.CheckTarget = s.config.checkTarget
	}
	if d.blobs != nil {
		c.Blobs = d.blobs
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

// hostName returns the host's name, or an empty one.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// close closes everything; for when there is no node to do so.
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

// release closes the AWS clients and the places for blobs and backups, after the drivers are closed.
func (d *drivers) release() {
	if d.blobs != nil {
		_ = d.blobs.Close() // nothing is open for writing
	}
	if d.place != nil {
		d.place.Close()
	}
	if d.aws != nil {
		d.aws.Close()
	}
}
