package api_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func TestMasksOfChanges(t *testing.T) {
	request := &kinesinv1.UpdateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "m", Mode: "managed", Shards: 4, Breaker: &kinesinv1.Breaker{}}}
	if err := api.SetMask(request, "timeout"); err != nil || !slices.Equal(request.Fields, []string{"timeout", "breaker", "shards"}) {
		t.Errorf("%v, %v", request.Fields, err)
	}
	have := &kinesinv1.Lambda{Name: "n", Shards: 1, Timeout: 5, MaxAttempts: 7}
	api.Change(have, request)
	if want := (&kinesinv1.Lambda{Name: "n", Shards: 4, MaxAttempts: 7, Breaker: &kinesinv1.Breaker{}}); !proto.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
	for _, name := range []string{"name", "mode", "created", "lambda", "fields", "live", "shardz"} {
		err := api.SetMask(&kinesinv1.UpdateLambdaRequest{}, name)
		if err == nil || !strings.HasPrefix(err.Error(), `"`+api.Visible(name)+`" is no field that can be changed or reset: want any of backoff_max, backoff_min`) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for want, change := range map[string]proto.Message{
		"rate is set, and not in fields":    &kinesinv1.SetQuotaRequest{Lambda: "m", Rate: 1, Fields: []string{"burst"}},
		"payload is set, and not in fields": &kinesinv1.TaskUpdate{Id: "k1", Payload: []byte{}},
		"delay is set, and not in fields":   &kinesinv1.TaskUpdate{Delay: new(int64(0))},
	} {
		if err := api.CheckMask(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", change, err, want)
		}
	}
	if err := api.SetMask(&kinesinv1.SetQuotaRequest{Rate: 1}, "rate"); err == nil || !strings.Contains(err.Error(), "rate is to be reset and has a value") {
		t.Error(err)
	}
}
