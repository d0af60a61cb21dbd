package dynamo

import (
	"bytes"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// TestUnreadableRowsDoNotFloodTheLog meets 3,000 unreadable rows every five seconds, for ten minutes.
func TestUnreadableRowsDoNotFloodTheLog(t *testing.T) {
	t.Parallel()
	v := clock.NewVirtual(task.Instant(1_700_000_000_000_000), 1)
	var log bytes.Buffer
	told := 0
	c := New(nil, Config{
		Prefix: "k1", Clock: v.Process(0), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Observer: Observer{Unreadable: func(string, error) { told++ }},
	})
	const rows, looks, minutes = 3000, 120, 10
	for range looks {
		for n := range rows {
			key := item{attrID: &types.AttributeValueMemberS{Value: strconv.Itoa(n)}}
			c.client.skipUnreadable("k1-tasks", key, errors.New("format 255"))
		}
		v.Advance(minutes * unreadableLogEvery / looks)
	}
	if told != rows*looks {
		t.Errorf("the observer was told %d times, want %d", told, rows*looks)
	}
	if n := strings.Count(log.String(), "msg=\"row left alone"); n != unreadableLoggedMax {
		t.Errorf("%d rows were logged, want %d", n, unreadableLoggedMax)
	}
	if n := strings.Count(log.String(), "msg=\"more rows left alone"); n != minutes {
		t.Errorf("the others were logged %d times, want once a minute", n)
	}
	if want := "met=" + strconv.Itoa((rows-unreadableLoggedMax)*looks/minutes); !strings.Contains(log.String(), want) {
		t.Errorf("the log does not have %s", want)
	}
}
