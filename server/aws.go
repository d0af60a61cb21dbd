package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/inbound/buffer/sqsbuffer"
	"github.com/kinesin-io/kinesin/internal/awsclient"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/partition/kube"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

// checkMax bounds the checks of AWS at the start.
const checkMax = 20 * time.Second

// extraCheckMax bounds the checks that only complete an error.
const extraCheckMax = 5 * time.Second

// ErrSetup is returned if tables or queues are missing or misconfigured. The text names each, and the command
// that creates them.
var ErrSetup = errors.New("AWS is not set up for this")

// deliverLinger is shorter than the driver's default, since the dispatcher already sends batches.
const deliverLinger = 10 * time.Millisecond

// Lasting reports whether a start that failed with err will fail again until somebody changes something:
// tables, queues, credentials, permissions, the region, this machine's clock, or the pod's identity and
// permissions.
func Lasting(err error) bool {
	return errors.Is(err, ErrSetup) || awsclient.Lasting(err) || kube.Lasting(err)
}

// openAWS creates the AWS clients, checks the tables, and creates the drivers.
func (d *drivers) openAWS(ctx context.Context, c *Config, m *node.Metrics) (err error) {
	ctx, cancel := clock.Within(ctx, clock.Real(), checkMax)
	defer cancel()
	if d.aws, err = awsclient.New(ctx, clock.Real()); err != nil {
		return err
	}
	c.Log.InfoContext(ctx, "AWS", slog.String("prefix", c.AWSPrefix), slog.String("endpoints", d.aws.Endpoints()))
	ofDynamo, ofSQS := awsObservers(m)
	if c.Store == StoreDynamoDB {
		if err := d.checkTables(ctx, c); err != nil {
			return err
		}
		d.store = dynamo.New(d.aws.DynamoDB, dynamo.Config{Prefix: c.AWSPrefix, Clock: clock.Real(), Logger: c.Log, Observer: ofDynamo})
	}
	if c.Queue == QueueSQS {
		d.queue = sqs.New(d.aws.SQS, sqs.Config{
			Codec:  sqs.Codec{Append: store.AppendTask, Decode: store.DecodeTask, Newer: store.ErrVersion},
			Prefix: c.AWSPrefix, Clock: clock.Real(), Log: c.Log, Observer: ofSQS, MessageBytesMax: c.MessageBytesMax,
			DeliverLinger: deliverLinger, NoPolicies: c.NoQueuePolicies,
			Lambda:     func(ref uint32) (task.Lambda, bool) { return d.node.Lambda(ref) },
			Lambdas:    func() []task.Lambda { return d.node.Lambdas() },
			Registered: func(lambda string) bool { return d.node.Registered(lambda) },
		})
	}
	if c.Inbound {
		d.buffer = sqsbuffer.New(d.aws.SQS, sqsbuffer.Config{
			Prefix: c.AWSPrefix, Clock: clock.Real(), MessageBytesMax: c.MessageBytesMax, Observer: ofSQS,
		})
	}
	return nil
}

// checkTables returns ErrSetup if tables are missing or misconfigured. The error then also names missing
// queues, so that they can be created together.
func (d *drivers) checkTables(ctx context.Context, c *Config) error {
	differences, err := dynamo.Check(ctx, d.aws.DynamoDB, c.AWSPrefix)
	if err != nil {
		return awsclient.Explain(err)
	}
	if err := d.aws.CheckClock(); err != nil {
		return err
	}
	wrong := texts(differences)
	if len(wrong) > 0 && c.Inbound {
		if queues := d.missingInbound(ctx, c.AWSPrefix); len(queues) > 0 {
			return d.setupError(c.AWSPrefix, "tables and queues", append(wrong, queues...))
		}
	}
	return d.setupError(c.AWSPrefix, "tables", wrong)
}

// missingInbound names the missing queues of the inbound buffer, or the error of the check.
func (d *drivers) missingInbound(ctx context.Context, prefix string) []string {
	ctx, cancel := clock.Within(ctx, clock.Real(), extraCheckMax)
	defer cancel()
	differences, err := sqsclient.Check(ctx, d.aws.SQS, sqsbuffer.Queues(prefix))
	if err != nil {
		return []string{awsclient.Explain(err).Error()}
	}
	return texts(slices.DeleteFunc(differences, func(d sqsclient.Difference) bool { return d.Attribute != "" }))
}

// checkQueues returns ErrSetup if the queue of a lambda or of the inbound buffer is missing. It only logs
// attributes that differ, which may be the operator's choice, and missing queues of registered lambdas:
// removing one with Terraform must not keep servers from starting. It skips withdrawn lambdas.
func (s *Server) checkQueues(ctx context.Context, d *drivers) error {
	var specs []sqsclient.QueueSpec
	registered := map[string]bool{} // queues that Terraform creates
	if s.config.Inbound {
		specs = sqsbuffer.Queues(s.config.AWSPrefix)
	}
	if s.config.Queue == QueueSQS {
		withdrawn, err := d.node.Withdrawn(ctx)
		if err != nil {
			return err
		}
		for _, l := range d.node.Lambdas() {
			if withdrawn[l.Name] {
				continue
			}
			queues := sqs.Queues(s.config.AWSPrefix, l)
			specs = append(specs, queues...)
			for i := range queues {
				registered[queues[i].Name] = d.node.Registered(l.Name)
			}
		}
	}
	if s.config.Queue != QueueSQS && !s.config.Inbound {
		return nil
	}
	ctx, cancel := clock.Within(ctx, clock.Real(), checkMax)
	defer cancel()
	differences, err := sqsclient.Check(ctx, d.aws.SQS, specs)
	if err == nil && len(specs) == 0 { // any queue will do to see whether SQS answers
		_, err = sqsclient.Check(ctx, d.aws.SQS, sqsbuffer.Queues(s.config.AWSPrefix)[:1])
	}
	if err != nil {
		return awsclient.Explain(err)
	}
	if err := d.aws.CheckClock(); err != nil {
		return err
	}
	var missing []string
	for i := range differences {
		if differences[i].Attribute == "" && !registered[differences[i].Queue] {
			missing = append(missing, differences[i].String())
			continue
		}
		s.config.Log.WarnContext(ctx, "queue differs from what setup creates", slog.String("difference", differences[i].String()))
	}
	return d.setupError(s.config.AWSPrefix, "queues", missing)
}

func texts[D fmt.Stringer](differences []D) []string {
	all := make([]string, len(differences))
	for i, d := range differences {
		all[i] = d.String()
	}
	return all
}

// setupError lists the differences, one per line; nil if there are none.
func (d *drivers) setupError(prefix, what string, differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return fmt.Errorf("%w: the %s of prefix %s (%s) are missing or misconfigured:\n  %s\n"+
		"Is the region right? To create what is missing, run: kinesin aws setup --aws-prefix %s (with Terraform: terraform apply)",
		ErrSetup, what, prefix, d.aws.Endpoints(), strings.Join(differences, "\n  "), prefix)
}
