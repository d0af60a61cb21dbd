package rest

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// A batch is a request whose body has a task on each line. It is read, scheduled and answered chunk by chunk,
// so that it may have any number of lines and takes bounded memory.
const (
	chunkLinesMax = 1000
	chunkBytesMax = api.BatchLineBytesMax
	// lineWithin is how long a batch may send nothing, or take nothing of its results.
	lineWithin = 30 * time.Second
)

// batchLine is the result of a line: a task that is durable, or a problem.
type batchLine struct {
	done    *kinesinv1.ScheduleResult
	index   *uint32 // of a member of a group
	problem *api.HTTPProblem
}

// append appends the line in JSON, with a line feed.
func (l *batchLine) append(dst []byte) []byte {
	if l.problem != nil {
		dst = append(jsonform.AppendValue(append(dst, `{"problem":`...), l.problem), '}')
		return append(dst, '\n')
	}
	dst = jsonform.Append(dst, l.done)
	if l.index != nil {
		dst = append(dst[:len(dst)-1], `,"index":`...)
		dst = append(strconv.AppendUint(dst, uint64(*l.index), 10), '}')
	}
	return append(dst, '\n')
}

// batchKind says what becomes of the lines of a batch.
type batchKind interface {
	// item returns the task of a line.
	item(line []byte) (*kinesinv1.ScheduleItem, error)
	// schedule schedules the tasks of a chunk and sets its results. An error ends the batch.
	schedule(k *chunk) error
}

type batchMaker func(c *call) (batchKind, error)

// chunk are some lines of a batch, with their results.
type chunk struct {
	lines []batchLine
	items []*kinesinv1.ScheduleItem
	of    []int // the line of each item
	bytes int
}

func (k *chunk) isFull() bool { return len(k.lines) >= chunkLinesMax || k.bytes >= chunkBytesMax }

// refuse adds a line with a problem.
func (k *chunk) refuse(p api.HTTPProblem) { k.lines = append(k.lines, batchLine{problem: &p}) }

// batch is a batch that is under way.
type batch struct {
	*call

	kind    batchKind
	lines   *bufio.Reader
	control *http.ResponseController
	begun   bool // an answer was sent
}

// serveBatch serves a batch. A refusal of all of it before anything was answered has its status; afterwards
// it is the result of each line of a chunk, and the end.
func (c *call) serveBatch() {
	kind, err := c.route.batch(c)
	if err != nil {
		c.refuse(err)
		return
	}
	b := &batch{call: c, kind: kind, lines: bufio.NewReaderSize(c.r.Body, api.BatchLineBytesMax), control: http.NewResponseController(c.w)}
	_ = b.control.EnableFullDuplex() // fails only with HTTP/2, which needs no such thing
	for {
		k, readErr := b.read()
		if len(k.lines) > 0 || readErr != nil {
			if err := b.schedule(k); err != nil && !b.begun {
				c.refuse(err)
				return
			} else if err != nil {
				b.send(k)
				return
			}
		}
		if errors.Is(readErr, io.EOF) && len(k.lines) == 0 && !b.begun {
			c.refuse(invalid("the batch is empty: want a JSON object on each line"))
			return
		}
		if !b.send(k) || readErr != nil {
			return
		}
	}
}

// read reads lines until a chunk is full, or until it would have to wait for more.
func (b *batch) read() (k *chunk, err error) {
	k = &chunk{}
	for !k.isFull() && (len(k.lines) == 0 || b.lines.Buffered() > 0) {
		_ = b.control.SetReadDeadline(time.Now().Add(lineWithin)) // fails only where there is no connection
		line, isWhole, err := b.line()
		k.bytes += len(line)
		switch {
		case !isWhole:
			k.refuse(api.HTTPProblemOf(&kinesinv1.Problem{
				Reason: kinesinv1.Reason_REASON_TOO_LARGE, Text: "a line of a batch has at most 524288 bytes: send this task alone",
			}))
		case len(bytes.TrimSpace(line)) > 0:
			b.add(k, line)
		}
		if err != nil {
			return k, err
		}
	}
	return k, nil
}

// line reads one line. One that is too long is skipped.
func (b *batch) line() (line []byte, isWhole bool, err error) {
	isWhole = true
	for {
		line, err = b.lines.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, isWhole, err //nolint:wrapcheck // io.EOF has to stay itself
		}
		isWhole = false
	}
}

// add adds a line to a chunk.
func (b *batch) add(k *chunk, line []byte) {
	item, err := b.kind.item(line)
	if err != nil {
		k.refuse(b.problem(err))
		return
	}
	k.items, k.of = append(k.items, item), append(k.of, len(k.lines))
	k.lines = append(k.lines, batchLine{})
}

// schedule schedules the tasks of a chunk. With an error, all its lines have that problem.
func (b *batch) schedule(k *chunk) error {
	if len(k.lines) == 0 {
		return nil
	}
	err := b.kind.schedule(k)
	if err != nil {
		problem := b.problem(err)
		for _, n := range k.of {
			k.lines[n].problem = &problem
		}
	}
	return err
}

// taskBatch schedules tasks of a lambda, each by itself.
type taskBatch struct{ *call }

func newTaskBatch(c *call) (batchKind, error) { return taskBatch{c}, nil }

func (b taskBatch) item(line []byte) (*kinesinv1.ScheduleItem, error) {
	item := &kinesinv1.ScheduleItem{}
	if _, err := jsonform.DecodeAs("the line", line, item, "lambda"); err != nil {
		return nil, invalid("%v", err)
	}
	item.Lambda = b.vars["lambda"]
	return item, nil
}

func (b taskBatch) schedule(k *chunk) error {
	if len(k.items) == 0 {
		return nil
	}
	response, err := b.Tasks.Schedule(b.r.Context(), &kinesinv1.ScheduleRequest{Items: k.items})
	if err == nil && len(response.GetResults()) != len(k.items) {
		err = errCount(len(response.GetResults()))
	}
	if err != nil {
		return err
	}
	for i, r := range response.GetResults() {
		k.lines[k.of[i]].done, k.lines[k.of[i]].problem = r, problemOf(r.GetProblem())
	}
	return nil
}

// send sends the results of a chunk, and reports whether the caller takes them.
func (b *batch) send(k *chunk) bool {
	if len(k.lines) == 0 {
		return true
	}
	var body []byte
	for i := range k.lines {
		body = k.lines[i].append(body)
	}
	if !b.begun {
		b.begun = true
		b.w.Header().Set("Content-Type", api.BatchType)
		b.w.Header().Set("X-Content-Type-Options", "nosniff")
		b.w.WriteHeader(http.StatusOK)
	}
	_ = b.control.SetWriteDeadline(time.Now().Add(lineWithin)) // fails only where there is no connection
	if _, err := b.w.Write(body); err != nil {
		return false
	}
	return b.control.Flush() == nil
}

// memberBatch adds members to a group. The lines of a chunk are added together or not at all, and the batch
// ends with a line that is refused, since the places of those behind it depend on it.
type memberBatch struct {
	*call

	lambda string // of lines that name none
	at     uint32
	had    uint32 // members that the group had when the batch began
}

func newMemberBatch(c *call) (batchKind, error) {
	at, err := c.number("at", task.GroupMembersMax)
	if err != nil {
		return nil, err
	}
	now, err := c.Groups.GetGroup(c.r.Context(), &kinesinv1.GetGroupRequest{Id: c.vars["group"]})
	if err != nil {
		return nil, err
	}
	b := &memberBatch{call: c, lambda: c.query.Get("lambda"), at: at, had: now.GetGroup().GetMembers()}
	if !c.query.Has("at") {
		b.at = b.had
	}
	return b, nil
}

func (b *memberBatch) item(line []byte) (*kinesinv1.ScheduleItem, error) {
	item := &kinesinv1.ScheduleItem{}
	if _, err := jsonform.DecodeAs("the line", line, item, "?lambda"); err != nil {
		return nil, invalid("%v", err)
	}
	if item.Lambda = cmp.Or(item.GetLambda(), b.lambda); item.GetLambda() == "" {
		return nil, invalid(`"lambda" is missing: want it in the line, or for all lines in the query`)
	}
	return item, nil
}

func (b *memberBatch) schedule(k *chunk) error {
	for i := range k.lines {
		if p := k.lines[i].problem; p != nil {
			return api.Errorf(kinesinv1.Reason_REASON_INVALID, "line %d behind %d members: %s; the lines that came with it were not added", i+1, b.at, p.Detail)
		}
	}
	for start := 0; start < len(k.items); {
		end := len(k.items)
		if left := int(b.had) - int(b.at); left > 0 { // an earlier call had added the first lines, and maybe in other parts
			end = min(end, start+left)
		}
		response, err := b.Groups.AddMembers(b.r.Context(), &kinesinv1.AddMembersRequest{Group: b.vars["group"], At: b.at, Items: k.items[start:end]})
		if err == nil && len(response.GetIds()) != end-start {
			err = errCount(len(response.GetIds()))
		}
		if err != nil {
			k.of = k.of[start:]
			return err
		}
		for i, id := range response.GetIds() {
			index := b.at + uint32(i)
			line := &k.lines[k.of[start+i]]
			line.done, line.index = &kinesinv1.ScheduleResult{Id: id, Duplicate: response.GetDuplicate()}, &index
		}
		b.at, start = b.at+uint32(end-start), end
	}
	return nil
}
