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
	"github.com/kinesin-io/kinesin/partition/kube"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

// checkMax bounds what a start asks of AWS before it serves.
const checkMax = 20 * time.Second

// asideMax bounds what is looked at beside what is known to be wrong.
const asideMax = 5 * time.Second

// ErrSetup says that tables or queues are missing or not as they have to be; the text names each, and what to
// run.
var ErrSetup = errors.New("AWS is not set up for this")

// deliverLinger is less than the driver's own: what is sent together comes together, from the dispatcher.
const deliverLinger = 10 * time.Millisecond

// Lasting reports whether a start that failed so will fail again until somebody changes something: tables,
// queues, credentials, permissions, the region or this machine's clock; the pod's identity, or what it may
// ask of Kubernetes. Others may pass.
func Lasting(err error) bool {
	return errors.Is(err, ErrSetup) || awsclient.Lasting(err) || kube.Lasting(err)
}

// openAWS makes the clients and the drivers on AWS, after it has checked that their tables and queues are
// there.
func (d *drivers) openAWS(ctx context.Context, c *Config, m *node.Metrics) (err error) {
	ctx, cancel := clock.Within(ctx, clock.Real(), checkMax)
	defer cancel()
	if d.aws, err = awsclient.New(ctx, clock.Real()); err != nil {
		return err
	}
	c.Log.InfoContext(ctx, "AWS", slog.String("prefix", c.AWSPrefix), slog.String("endpoints", d.aws.Endpoints()))
	watch := newAWSMetrics(m.Registerer())
	if c.Store == StoreDynamoDB {
		if err := d.checkTables(ctx, c); err != nil {
			return err
		}
		d.store = dynamo.New(d.aws.DynamoDB, dynamo.Config{Prefix: c.AWSPrefix, Clock: clock.Real(), Logger: c.Log, Observer: watch.dynamo()})
	}
	if c.Queue == QueueSQS {
		d.queue = sqs.New(d.aws.SQS, sqs.Config{
			Codec:  sqs.Codec{Append: store.AppendTask, Decode: store.DecodeTask, Newer: store.ErrVersion},
			Prefix: c.AWSPrefix, Clock: clock.Real(), Log: c.Log, Observer: watch.sqs(), MessageBytesMax: c.MessageBytesMax,
			DeliverLinger: deliverLinger,
			Lambda:        func(ref uint32) (task.Lambda, bool) { return d.node.Lambda(ref) },
			Lambdas:       func() []task.Lambda { return d.node.Lambdas() },
			Registered:    func(lambda string) bool { return d.node.Registered(lambda) },
		})
	}
	if c.Inbound {
		d.buffer = sqsbuffer.New(d.aws.SQS, sqsbuffer.Config{
			Prefix: c.AWSPrefix, Clock: clock.Real(), MessageBytesMax: c.MessageBytesMax, Observer: watch.sqs(),
		})
	}
	return nil
}

// checkTables says of tables that are not as they have to be. Who has to make them is told at once which
// queues are missing too.
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

// missingInbound names those of the inbound buffer's queues that are missing, or says why that cannot be
// told.
func (d *drivers) missingInbound(ctx context.Context, prefix string) []string {
	ctx, cancel := clock.Within(ctx, clock.Real(), asideMax)
	defer cancel()
	differences, err := sqs.Check(ctx, d.aws.SQS, sqsbuffer.Queues(prefix))
	if err != nil {
		return []string{awsclient.Explain(err).Error()}
	}
	return texts(slices.DeleteFunc(differences, func(d sqs.Difference) bool { return d.Attribute != "" }))
}

// checkQueues looks for the queues of the lambdas there are, and that of the inbound buffer. One that is
// missing ends the start; attributes that are not as setup makes them may be the operator's choice, so they
// are only told; and so is a missing queue of a lambda that was registered: who takes one away with Terraform
// must not keep the servers of all others from starting. Those of one that was withdrawn are not looked at:
// they are to be gone.
func (s *Server) checkQueues(ctx context.Context, d *drivers) error {
	var specs []sqs.QueueSpec
	theirs := map[string]bool{} // the names of those that Terraform makes
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
				theirs[queues[i].Name] = d.node.Registered(l.Name)
			}
		}
	}
	if s.config.Queue != QueueSQS && !s.config.Inbound {
		return nil
	}
	ctx, cancel := clock.Within(ctx, clock.Real(), checkMax)
	defer cancel()
	differences, err := sqs.Check(ctx, d.aws.SQS, specs)
	if err == nil && len(specs) == 0 { // any queue will do to learn whether SQS answers
		_, err = sqs.Check(ctx, d.aws.SQS, sqsbuffer.Queues(s.config.AWSPrefix)[:1])
	}
	if err != nil {
		return awsclient.Explain(err)
	}
	if err := d.aws.CheckClock(); err != nil {
		return err
	}
	var missing []string
	for i := range differences {
		if differences[i].Attribute == "" && !theirs[differences[i].Queue] {
			missing = append(missing, differences[i].String())
			continue
		}
		s.config.Log.WarnContext(ctx, "a queue differs from what setup makes", slog.String("difference", differences[i].String()))
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

// setupError says what is wrong line by line; nil when nothing is.
func (d *drivers) setupError(prefix, what string, differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return fmt.Errorf("%w: the %s of prefix %s (%s) are not as they have to be:\n  %s\n"+
		"Is the region right? To make what is missing, run: kinesin aws setup --aws-prefix %s (where Terraform makes it: terraform apply)",
		ErrSetup, what, prefix, d.aws.Endpoints(), strings.Join(differences, "\n  "), prefix)
}
