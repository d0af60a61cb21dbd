package sqs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// ErrNoQueue says that an SQS queue is not there.
var ErrNoQueue = fmt.Errorf("%w in SQS", queue.ErrMissing)

// Retries of what SQS refused for the moment. The SDK retries whole requests by itself; this is about entries
// of a batch, and about deletes and returns, for which nobody else would try again.
const (
	triesMax    = 4
	backoffMin  = 50 * time.Millisecond
	backoffMost = 2 * time.Second
	// retryTokensMax and retryTokensEvery bound the retries of the whole driver, so that a service in trouble
	// gets no second load from here.
	retryTokensMax   = 200
	retryTokensEvery = 20 * time.Millisecond
)

// urls are the addresses of queues by name.
type urls struct {
	mu    sync.Mutex
	known map[string]string
}

// url finds the address of a queue.
func (d *Driver) url(ctx context.Context, name string) (string, error) {
	d.urls.mu.Lock()
	url := d.urls.known[name]
	d.urls.mu.Unlock()
	if url != "" {
		return url, nil
	}
	out, err := request(ctx, d, Request{Queue: name, Action: ActionURL}, func(ctx context.Context) (*sqs.GetQueueUrlOutput, error) {
		return d.api.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name})
	})
	if err != nil {
		return "", err
	}
	d.urls.mu.Lock()
	defer d.urls.mu.Unlock()
	d.urls.known[name] = aws.ToString(out.QueueUrl)
	return d.urls.known[name], nil
}

// forgetURL has the address asked for again: a queue that was deleted and made again may have another.
func (d *Driver) forgetURL(name string) {
	d.urls.mu.Lock()
	defer d.urls.mu.Unlock()
	delete(d.urls.known, name)
}

// request runs one request within its time and tells the observer.
func request[Out any](ctx context.Context, d *Driver, r Request, call func(context.Context) (*Out, error)) (*Out, error) {
	within, cancel := clock.Within(ctx, d.Clock, cmp.Or(r.within, d.RequestTimeout))
	defer cancel()
	began := clock.Mono(d.Clock)
	out, err := call(within)
	if err != nil {
		err = explain(r.Queue, string(r.Action), err)
		if errors.Is(err, ErrNoQueue) {
			d.forgetURL(r.Queue)
			err = d.whoseQueue(r.Queue, err)
		}
	}
	if r.measure != nil {
		r.Entries, r.Bytes = r.measure(out)
	}
	r.Took, r.Err, r.Unknown = clock.Mono(d.Clock)-began, err, isUnknown(err)
	d.observe(r)
	if ctx.Err() == nil { // else we gave it up
		d.noteAnswer(err)
	}
	return out, err
}

// requestTo is request with the queue's address.
func requestTo[Out any](ctx context.Context, d *Driver, r Request, call func(ctx context.Context, url *string) (*Out, error)) (*Out, error) {
	url, err := d.url(ctx, r.Queue)
	if err != nil {
		return nil, err
	}
	return request(ctx, d, r, func(ctx context.Context) (*Out, error) { return call(ctx, &url) })
}

// explain says which queue it was, and marks that it is not there, or that another try may help.
func explain(name, action string, err error) error {
	var missing *types.QueueDoesNotExist
	if errors.As(err, &missing) || codeOf(err) == "AWS.SimpleQueueService.NonExistentQueue" {
		return fmt.Errorf("%w: %s is not there; `kinesin lambda create` makes the queues of a lambda when it may, "+
			"`kinesin aws setup` those of all", ErrNoQueue, name)
	}
	return fmt.Errorf("%s of SQS queue %s: %w", action, name, marked(err))
}

// marked is an error of a request with the seam's word for it where it may pass. One that its caller gave up says nothing of SQS.
func marked(err error) error {
	if !helpsToRetry(err) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", queue.ErrUnreachable, err)
}

// whoseQueue says what to do about a missing queue of a lambda that was registered; setup would be in the way of who makes those.
func (d *Driver) whoseQueue(name string, err error) error {
	if d.Registered == nil {
		return err
	}
	for _, l := range d.Lambdas() {
		if !d.Registered(l.Name) {
			continue
		}
		for _, q := range Queues(d.Prefix, l) {
			if q.Name == name {
				return fmt.Errorf("%w: %s is not there; Terraform makes those of lambda %s: apply its module call, or put it back and apply; "+
					"to give the lambda up instead: `kinesin lambda delete %s --drop`", ErrNoQueue, name, l.Name, l.Name)
			}
		}
	}
	return err
}

func codeOf(err error) string {
	if api, is := errors.AsType[smithy.APIError](err); is {
		return api.ErrorCode()
	}
	return ""
}

// isUnknown reports whether a request that failed may have been carried out: nothing came back, or not the
// service's considered answer.
func isUnknown(err error) bool {
	if err == nil || errors.Is(err, ErrNoQueue) {
		return false
	}
	var api smithy.APIError
	return !errors.As(err, &api) || api.ErrorFault() == smithy.FaultServer
}

var throttleCodes = []string{
	"RequestThrottled", "Throttling", "ThrottlingException", "KmsThrottled", "TooManyRequestsException", "KMS.ThrottlingException",
}

// helpsToRetry reports whether trying a whole request again may help soon.
func helpsToRetry(err error) bool {
	if err == nil || errors.Is(err, ErrNoQueue) {
		return false
	}
	return isUnknown(err) || slices.Contains(throttleCodes, codeOf(err))
}

// budget is a bucket of retries.
type budget struct {
	mu     sync.Mutex
	tokens int
	filled task.Instant
}

// take reports whether one more retry is allowed.
func (b *budget) take(now task.Instant) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if gained := int(now.Sub(b.filled) / retryTokensEvery); gained != 0 || b.filled.IsZero() { // the clock may be set back
		b.tokens = min(retryTokensMax, b.tokens+min(max(gained, 0), retryTokensMax))
		b.filled = now
	}
	if b.tokens == 0 {
		return false
	}
	b.tokens--
	return true
}

// backOff waits before the try with that number, with full jitter. It is false when there is to be no such try.
func (d *Driver) backOff(ctx context.Context, try int) bool {
	if try >= triesMax || d.closed.Load() || !d.budget.take(d.Clock.Now()) {
		return false
	}
	return clock.Sleep(ctx, d.Clock, d.jitter(backoffMin<<try)) == nil
}

// jitter draws a wait from all that are at most d, or backoffMost.
func (d *Driver) jitter(most time.Duration) time.Duration {
	most = min(max(most, 1), backoffMost)
	return time.Duration(d.Clock.Uint64() % uint64(most))
}

// entryIDs are the ids of entries in a batch, by position.
var entryIDs = [batchEntriesMax]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

// entryOf is the position that an id of a batch's answer stands for; false for one that was never asked for.
func entryOf(id *string, entries int) (int, bool) {
	i := slices.Index(entryIDs[:entries], aws.ToString(id))
	return i, i >= 0
}
