package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// followLines are the tasks that follow one, in the form of lines of a batch.
type followLines struct {
	Then    []batchLine `json:"then"`
	Else    []batchLine `json:"else"`
	Finally []batchLine `json:"finally"`
}

var errTooDeep = fmt.Errorf("at most %d tasks may follow each other", task.ChainDepthMax)

// follow gives an item what follows it. So many tasks come before it.
func (f *followLines) follow(item *sdk.Item, depth int) error {
	for _, list := range []struct {
		name string
		from []batchLine
		to   *[]sdk.Item
	}{{"then", f.Then, &item.Then}, {"else", f.Else, &item.Else}, {"finally", f.Finally, &item.Finally}} {
		if len(list.from) > 0 && depth+1 >= task.ChainDepthMax {
			return errTooDeep
		}
		for i := range list.from {
			one, err := list.from[i].following(depth + 1)
			if errors.Is(err, errTooDeep) {
				return err
			}
			if err != nil {
				return fmt.Errorf("%s[%d]: %w", list.name, i, err)
			}
			*list.to = append(*list.to, one)
		}
	}
	return nil
}

// following returns a task that follows another, and which so many come before.
func (l *batchLine) following(depth int) (sdk.Item, error) {
	alone := *l
	alone.followLines = followLines{}
	item, err := alone.item("")
	if err != nil {
		return item, err
	}
	return item, l.follow(&item, depth)
}

// parseFollow reads what follows a task: an object with then, else and finally, or a list of what follows a
// success.
func parseFollow(data []byte, item *sdk.Item) error {
	var f followLines
	var into any = &f
	if first := bytes.TrimLeft(data, jsonSpace); len(first) > 0 && first[0] == '[' {
		into = &f.Then
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("want a JSON list of tasks, or an object with then, else and finally, each task with lambda and of %s: %w", batchFields, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return f.follow(item, 0)
}

// readFollow reads what follows a task from a file, or from stdin for "-".
func (a *app) readFollow(path string, item *sdk.Item) error {
	r, err := a.open(path)
	if err != nil {
		return fmt.Errorf("read what follows: %w", err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, batchLineBytesMax+1))
	if err != nil {
		return fmt.Errorf("read what follows: %w", err)
	}
	if len(data) > batchLineBytesMax {
		return usagef("--then: more than %d bytes", batchLineBytesMax)
	}
	if err := parseFollow(data, item); err != nil {
		return usagef("--then: %v", err)
	}
	return nil
}
