package node

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// forger may send to all queues, knows the rows of all tasks, and does not have the installation's key.
type forger struct {
	*rig

	sqs *sqsclient.Client
}

func newForger(r *rig, c *cloud) *forger {
	return &forger{r, sqsclient.New(c.queues, sqsclient.Config{Clock: clock.Real()})}
}

// rows returns the rows of tasks: task rows, or wake-up rows of those that have none.
func (f *forger) rows(ids []sdk.ID) [][]byte {
	f.Helper()
	s := f.nodes[0].node.store
	all := make([][]byte, len(ids))
	for i, id := range ids {
		token := f.open(id)
		rows, err := s.Tasks(f.ctx, []task.ID{token.ID})
		if err == nil && rows[0].ID.IsZero() {
			rows, err = s.Wakeups(f.ctx, []store.WakeKey{{Partition: token.Partition, Wake: token.Due, ID: token.ID}})
		}
		if err != nil || rows[0].ID.IsZero() {
			f.Fatalf("task %s: %v, %v", id, rows, err)
		}
		all[i] = store.AppendTask(nil, &rows[0])
	}
	return all
}

// open reads a public id as anybody can: its content is not secret, only its seal is.
func (f *forger) open(id sdk.ID) task.Token {
	f.Helper()
	token, err := f.nodes[0].node.keyring.IDs().Open(f.Context(), string(id))
	if err != nil {
		f.Fatal(err)
	}
	return token
}

// forgeries are what a row is changed to, one field at a time.
var forgeries = map[string]func(t *task.Task, now task.Instant){
	"nothing":   func(*task.Task, task.Instant) {},
	"payload":   func(t *task.Task, _ task.Instant) { t.Payload, t.PayloadSize = []byte("forged"), 6 },
	"due":       func(t *task.Task, now task.Instant) { t.Due, t.Wake, t.WakeRow.At = now, now, now },
	"sent":      func(t *task.Task, now task.Instant) { t.State, t.Enqueued, t.Wake = task.Enqueued, now, now },
	"sequence":  func(t *task.Task, _ task.Instant) { t.Seq++ },
	"attempt":   func(t *task.Task, _ task.Instant) { t.Attempt += 3 },
	"key":       func(t *task.Task, _ task.Instant) { t.Key = "forged" },
	"suspect":   func(t *task.Task, _ task.Instant) { t.Suspect = true },
	"timeout":   func(t *task.Task, _ task.Instant) { t.Overrides.Timeout = time.Hour },
	"partition": func(t *task.Task, _ task.Instant) { t.Partition.Shard++ },
	"id":        func(t *task.Task, _ task.Instant) { t.ID[15]++ },
}

// bodies returns a row as messages without a seal, with one of zeros, and with that of another installation.
func bodies(queue string, row *task.Task) []string {
	encoded := store.AppendTask(nil, row)
	field := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), encoded)
	unsealed := append(make([]byte, task.SealBytes), field...)
	sealed := task.NewSealer(bytes.Repeat([]byte{7}, task.TokenKeyBytes)).Ring().Messages().Seal(queue, field)
	text := base64.RawURLEncoding.EncodeToString
	return []string{"k1." + text(field), "k2." + text(field), "k2." + text(unsealed), "k2." + text(sealed)}
}

func (f *forger) send(queue, body string) {
	f.Helper()
	if err := errors.Join(f.sqs.Send(f.ctx, queue, []sqsclient.Message{{Body: body}})...); err != nil {
		f.Fatal(err)
	}
}

// forge sends every change of every row to the queue of its lambda and to another one's.
func (f *forger) forge(rows [][]byte) (sent int) {
	f.Helper()
	for _, row := range rows {
		for _, change := range forgeries {
			for _, queue := range []string{"k-mail-normal", "k-other-normal"} {
				forged, err := store.DecodeTask(row)
				if err != nil {
					f.Fatal(err)
				}
				change(&forged, f.nodes[0].node.clock.Now())
				for _, body := range bodies(queue, &forged) {
					f.send(queue, body)
					sent++
				}
			}
		}
	}
	return sent
}

// TestForgedMessagesRunNothing sends what somebody can make who may send to the queues of lambdas. Nothing of
// it runs, and no row changes. It also moves what servers have sent to the queue of another lambda.
func TestForgedMessagesRunNothing(t *testing.T) {
	var service cloud
	inRig(t, service.drivers(t), 2, remote, func(r *rig) {
		f := newForger(r, &service)
		for _, name := range []string{"mail", "other"} {
			r.lambda(admin.Lambda{Name: name, Priorities: []string{"normal"}, BackoffMin: time.Hour, BackoffMax: time.Hour})
		}
		var mu sync.Mutex
		ran := map[string]int{}
		handler := func(_ context.Context, t *sdk.Task[[]byte]) error {
			mu.Lock()
			defer mu.Unlock()
			if ran[string(t.Payload)]++; string(t.Payload) == "retried" {
				return errors.New("not this time")
			}
			return nil
		}
		late := []sdk.Item{
			{Payload: []byte("waiting"), In: time.Hour},
			{Payload: []byte("keyed"), In: time.Hour, Key: "k"},
			{Payload: []byte("retried")},
		}
		var ids []sdk.ID
		for i := range late {
			late[i].Lambda = "mail"
			ids = append(ids, r.schedule(late[i]))
		}
		r.work(r.nodes[0], "mail", handler)
		time.Sleep(time.Minute) // the third has failed once
		before := f.rows(ids)

		r.work(r.nodes[1], "other", handler)
		sent := f.forge(before)
		time.Sleep(10 * time.Minute)
		mu.Lock()
		if len(ran) != 1 || ran["retried"] != 1 {
			t.Errorf("ran: %v", ran)
		}
		mu.Unlock()
		for i, row := range f.rows(ids) {
			if !bytes.Equal(row, before[i]) {
				t.Errorf("%s: the row changed", late[i].Payload)
			}
		}
		if left := f.left("k-mail-normal") + f.left("k-other-normal"); left != sent {
			t.Errorf("%d of %d forged messages are left", left, sent)
		}
	})
}

// TestASentMessageIsForItsQueueAlone moves what a server has sent to the queue of another lambda, and sends
// it twice. The task runs once, for its own lambda.
func TestASentMessageIsForItsQueueAlone(t *testing.T) {
	var service cloud
	inRig(t, service.drivers(t), 1, remote, func(r *rig) {
		f := newForger(r, &service)
		for _, name := range []string{"mail", "other"} {
			r.lambda(admin.Lambda{Name: name, Priorities: []string{"normal"}})
		}
		r.schedule(sdk.Item{Lambda: "mail", Payload: []byte("sent")})
		time.Sleep(5 * time.Second)
		body := f.steal("k-mail-normal")
		f.send("k-other-normal", body)
		f.send("k-mail-normal", body)
		f.send("k-mail-normal", body)
		var mu sync.Mutex
		var ran []string
		for _, name := range []string{"mail", "other"} {
			r.work(r.nodes[0], name, func(_ context.Context, t *sdk.Task[[]byte]) error {
				mu.Lock()
				defer mu.Unlock()
				ran = append(ran, name+" "+string(t.Payload))
				return nil
			})
		}
		time.Sleep(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if fmt.Sprint(ran) != "[mail sent]" {
			t.Errorf("ran: %v", ran)
		}
	})
}

// steal takes a message out of a queue.
func (f *forger) steal(queue string) (body string) {
	f.Helper()
	messages, err := f.sqs.Receive(f.ctx, queue, sqsclient.Poll{Max: 1, Visibility: sqsclient.VisibilityMax})
	if err != nil || len(messages) != 1 {
		f.Fatalf("%+v, %v", messages, err)
	}
	return *messages[0].Body
}

// left returns how many messages are in a queue, received ones included.
func (f *forger) left(queue string) int {
	f.Helper()
	have, err := f.sqs.Attributes(f.ctx, queue, "All")
	if err != nil {
		f.Fatal(err)
	}
	return sqsclient.Count(have, "ApproximateNumberOfMessages") + sqsclient.Count(have, "ApproximateNumberOfMessagesNotVisible")
}
