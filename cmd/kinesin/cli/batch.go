package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
)

// Bounds of a batch, which bound its memory whatever the length of its input.
const (
	batchLinesMax     = 1000    // in a call
	batchBytesMax     = 1 << 20 // of the lines in a call, without the last one
	batchLineBytesMax = 6 << 20 // of one line
	batchCallsMax     = 4       // in flight
	batchReadBytes    = 256 << 10

	// Pauses before tasks are scheduled again that a quota has refused.
	batchThrottledMin, batchThrottledMax = 10 * time.Millisecond, time.Minute
)

// scheduleBatch reads, schedules and prints concurrently, and prints in order.
func (a *app) scheduleBatch(ctx context.Context, s *scheduleFlags, args []string) error {
	if err := s.refuseBeside(); err != nil {
		return err
	}
	r, err := a.open(s.batch)
	if err != nil {
		return fmt.Errorf("read the batch: %w", err)
	}
	defer r.Close()
	b := &batch{json: a.json(), lambda: strings.Join(args, ""), onConflict: s.item.OnConflict, line: a.line}
	return a.withClient(func(k *sdk.Client) error {
		b.sayHowFar()
		if err := b.run(ctx, k, r, a.Stdout); err != nil {
			return err
		}
		switch {
		case b.unanswered != nil:
			return fmt.Errorf("%d of %d tasks failed; the last that got no answer: %w", b.failed, b.tasks, b.unanswered)
		case b.failed > 0:
			return fmt.Errorf("%d of %d tasks failed", b.failed, b.tasks)
		}
		return nil
	})
}

// batch is one run of schedule --batch.
type batch struct {
	json   bool
	lambda string // for lines that name none
	line   *waitLine

	onConflict sdk.Conflict // for lines that have none

	// Counted by print.
	tasks, failed int
	unanswered    error // of the last task that got no answer
}

// chunk is a part of the input and its output.
type chunk struct {
	lines []rawLine
	bytes int

	out        bytes.Buffer
	failed     int
	unanswered error
	done       chan struct{} // closed when out, failed and unanswered are set
}

// rawLine is a line of the input.
type rawLine struct {
	number  int
	text    []byte
	tooLong bool
}

func (b *batch) run(ctx context.Context, k *sdk.Client, r io.Reader, w io.Writer) error {
	g, ctx := errgroup.WithContext(ctx)
	todo := make(chan *chunk)
	inOrder := make(chan *chunk, batchCallsMax)
	g.Go(func() error {
		defer close(todo)
		defer close(inOrder)
		return cut(ctx, r, func(c *chunk) error { return offer(ctx, c, inOrder, todo) })
	})
	for range batchCallsMax {
		g.Go(func() error {
			for c := range todo {
				b.schedule(ctx, k, c)
				close(c.done)
			}
			return nil
		})
	}
	g.Go(func() error { return b.print(ctx, inOrder, w) })
	return g.Wait()
}

// offer sends a chunk to several channels, one after the other.
func offer(ctx context.Context, c *chunk, to ...chan<- *chunk) error {
	for _, ch := range to {
		select {
		case ch <- c:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// cut splits the lines of r into chunks. It emits a chunk when it is full, or when the next line is not there
// yet, so that a slow input does not delay its tasks and a fast one makes full calls.
func cut(ctx context.Context, r io.Reader, emit func(*chunk) error) error {
	in := bufio.NewReaderSize(r, batchReadBytes)
	c := newChunk()
	for number := 1; ctx.Err() == nil; number++ {
		line, err := readLine(in)
		line.number = number
		if len(bytes.TrimSpace(line.text)) > 0 || line.tooLong {
			c.lines, c.bytes = append(c.lines, line), c.bytes+len(line.text)
		}
		if len(c.lines) > 0 && (err != nil || c.full() || !lineBuffered(in)) {
			if err := emit(c); err != nil {
				return err
			}
			c = newChunk()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read line %d: %w", number, err)
		}
	}
	return context.Cause(ctx)
}

func newChunk() *chunk {
	return &chunk{lines: make([]rawLine, 0, batchLinesMax), done: make(chan struct{})}
}

func (c *chunk) full() bool { return len(c.lines) == batchLinesMax || c.bytes > batchBytesMax }

// lineBuffered reports whether the next line is complete in the buffer.
func lineBuffered(in *bufio.Reader) bool {
	waiting, _ := in.Peek(in.Buffered()) // cannot fail for buffered bytes
	return bytes.IndexByte(waiting, '\n') >= 0
}

// readLine reads a line. It keeps no text of a line that is too long.
func readLine(in *bufio.Reader) (rawLine, error) {
	var line rawLine
	for {
		part, err := in.ReadSlice('\n')
		if line.tooLong = line.tooLong || len(line.text)+len(part) > batchLineBytesMax; line.tooLong {
			line.text = nil
		} else {
			line.text = append(line.text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// parseLine reads a line, whose lambda is another one if it names none. Its errors do not contain the number of the line.
func parseLine(raw *rawLine, lambda string) (sdk.Item, error) {
	if raw.tooLong {
		return sdk.Item{}, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "longer than %d bytes", batchLineBytesMax)
	}
	w := &kinesinv1.ScheduleItem{}
	if _, err := jsonform.DecodeAs("the line", raw.text, w, taskExcept...); err != nil {
		return sdk.Item{}, api.Errorf(kinesinv1.Reason_REASON_INVALID, "%v", err)
	}
	if w.Lambda = cmp.Or(w.GetLambda(), lambda); w.GetLambda() == "" {
		return sdk.Item{}, api.Errorf(kinesinv1.Reason_REASON_INVALID, `"lambda" is missing`)
	}
	return itemOf(w)
}

// schedule schedules the tasks of a chunk and formats the results.
func (b *batch) schedule(ctx context.Context, k *sdk.Client, c *chunk) {
	results := make([]sdk.Result, len(c.lines))
	items := make([]sdk.Item, 0, len(c.lines))
	at := make([]int, 0, len(c.lines))
	for i := range c.lines {
		item, err := parseLine(&c.lines[i], b.lambda)
		item.OnConflict = cmp.Or(item.OnConflict, b.onConflict)
		if err != nil {
			results[i].Err = err
			continue
		}
		items, at = append(items, item), append(at, i)
	}
	if len(items) > 0 {
		for j, r := range scheduleAll(ctx, k, items) {
			results[at[j]] = r
		}
	}
	for i := range results {
		if err := results[i].Err; err != nil {
			c.failed++
			if errors.Is(err, sdk.ErrUnavailable) {
				c.unanswered = err
			}
		}
		b.format(&c.out, c.lines[i].number, &results[i])
	}
}

// scheduleAll schedules items. For those that a quota refuses it waits, however long that takes.
func scheduleAll(ctx context.Context, k *sdk.Client, items []sdk.Item) []sdk.Result {
	results, _ := k.ScheduleMany(ctx, items) // the errors are in the results
	for {
		var again []sdk.Item
		var at []int
		wait := batchThrottledMax
		for i := range results {
			if refused, is := errors.AsType[*api.Error](results[i].Err); is && errors.Is(refused, sdk.ErrThrottled) {
				again, at = append(again, items[i]), append(at, i)
				wait = min(wait, refused.RetryAfter)
			}
		}
		if len(again) == 0 || clock.Sleep(ctx, clock.Real(), max(wait, batchThrottledMin)) != nil {
			return results
		}
		some, _ := k.ScheduleMany(ctx, again) // which waits before it gives up
		for j := range some {
			results[at[j]] = some[j]
		}
	}
}

func (b *batch) format(w *bytes.Buffer, line int, r *sdk.Result) {
	switch {
	case b.json: // as HTTP answers a batch, and the number of the line
		text := jsonform.Append(w.AvailableBuffer(), scheduledOf(r))
		if r.Err != nil {
			text = append(jsonform.AppendValue([]byte(`{"problem":`), httpProblemOf(r.Err)), '}')
		}
		appendLine(w, text, "line", line)
	case r.Err != nil:
		fmt.Fprintf(w, "error: line %d: %s\n", line, oneLine(r.Err))
	default:
		w.WriteString(string(r.ID))
		w.WriteByte('\n')
	}
}

// appendLine appends an object and a newline. The object gets one more member, a number.
func appendLine(w *bytes.Buffer, object []byte, name string, n int) {
	fmt.Fprintf(w, "%s,%q:%d}\n", object[:len(object)-1], name, n)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// print writes the results in the order of the lines.
func (b *batch) print(ctx context.Context, inOrder <-chan *chunk, w io.Writer) error {
	for c := range inOrder {
		select {
		case <-c.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		b.tasks += len(c.lines)
		b.failed += c.failed
		if c.unanswered != nil {
			b.unanswered = c.unanswered
		}
		if _, err := w.Write(c.out.Bytes()); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
		b.sayHowFar()
	}
	return nil
}

func (b *batch) sayHowFar() { b.line.say("%d tasks scheduled, %d failed", b.tasks-b.failed, b.failed) }
