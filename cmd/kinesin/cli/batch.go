package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/sdk"
)

// Bounds of a batch: whatever the length of its input, no more than this is in memory.
const (
	batchLinesMax     = 1000    // in a call
	batchBytesMax     = 1 << 20 // of lines in a call, before the last one
	batchLineBytesMax = 6 << 20 // of one line
	batchCallsMax     = 4       // in flight
	batchReadBytes    = 256 << 10
)

// scheduleBatch reads, schedules and prints at the same time, in order.
func (a *app) scheduleBatch(ctx context.Context, f *pflag.FlagSet, path string, args []string) error {
	for _, name := range []string{"in", "at", "priority", "collection", "key", "payload", "payload-file"} {
		if f.Changed(name) {
			return usagef("--%s does not go with --batch: say it in the lines", name)
		}
	}
	r, err := a.open(path)
	if err != nil {
		return fmt.Errorf("read the batch: %w", err)
	}
	defer r.Close()
	b := &batch{json: a.json(), lambda: strings.Join(args, "")}
	return a.withClient(func(k *sdk.Client) error {
		if err := b.run(ctx, k, r, a.Stdout); err != nil {
			return err
		}
		switch {
		case b.away != nil:
			return fmt.Errorf("%d of %d tasks failed; the last that got no answer: %w", b.failed, b.tasks, b.away)
		case b.failed > 0:
			return fmt.Errorf("%d of %d tasks failed", b.failed, b.tasks)
		}
		return nil
	})
}

// batch is one run of schedule --batch.
type batch struct {
	json   bool
	lambda string // of lines that name none

	// Counted by print.
	tasks, failed int
	away          error // why the last task without an answer had none
}

// chunk is a piece of the input on its way to the output.
type chunk struct {
	lines []rawLine
	bytes int

	out    bytes.Buffer
	failed int
	away   error
	done   chan struct{} // closed when the fields above it are there
}

// rawLine is a line as it was read, without its end.
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

// offer hands a chunk to whoever prints, then to whoever schedules.
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

// cut makes chunks of the lines of r. A chunk goes out when it is full, or when
// the next line has not come yet: nobody waits for a slow writer, and a fast
// one gets full calls.
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

// lineBuffered reports whether the next line is there without reading.
func lineBuffered(in *bufio.Reader) bool {
	waiting, _ := in.Peek(in.Buffered()) // cannot fail for what is buffered
	return bytes.IndexByte(waiting, '\n') >= 0
}

// readLine reads a line and its end; of one that is too long it keeps nothing.
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

// schedule carries out a chunk and writes its results.
func (b *batch) schedule(ctx context.Context, k *sdk.Client, c *chunk) {
	results := make([]sdk.Result, len(c.lines))
	items := make([]sdk.Item, 0, len(c.lines))
	at := make([]int, 0, len(c.lines))
	for i := range c.lines {
		item, err := parseLine(&c.lines[i], b.lambda)
		if err != nil {
			results[i].Err = err
			continue
		}
		items, at = append(items, item), append(at, i)
	}
	if len(items) > 0 {
		scheduled, _ := k.ScheduleMany(ctx, items) // the errors are in the results
		for j, r := range scheduled {
			results[at[j]] = r
		}
	}
	for i := range results {
		if err := results[i].Err; err != nil {
			c.failed++
			if errors.Is(err, sdk.ErrUnavailable) {
				c.away = err
			}
		}
		b.format(&c.out, c.lines[i].number, &results[i])
	}
}

// batchObject is a result of a batch in JSON.
type batchObject struct {
	Line      int    `json:"line"`
	ID        string `json:"id,omitempty"`
	Due       string `json:"due,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Error     string `json:"error,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

func (b *batch) format(w *bytes.Buffer, line int, r *sdk.Result) {
	switch {
	case b.json:
		o := batchObject{Line: line, ID: string(r.ID), Due: timeText(r.Due), Duplicate: r.Duplicate}
		if r.Err != nil {
			o.Error, o.Reason = oneLine(r.Err), reasonOf(r.Err)
		}
		_ = printJSON(w, o) // a buffer takes everything
	case r.Err != nil:
		w.WriteString("error: line ")
		w.WriteString(strconv.Itoa(line))
		w.WriteString(": ")
		w.WriteString(oneLine(r.Err))
		w.WriteByte('\n')
	default:
		w.WriteString(string(r.ID))
		w.WriteByte('\n')
	}
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
		if c.away != nil {
			b.away = c.away
		}
		if _, err := w.Write(c.out.Bytes()); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
	return nil
}
