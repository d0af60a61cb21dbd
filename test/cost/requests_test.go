package cost

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
)

// Tasks that come one by one share requests where they can wait for each other, and under load they share messages.
func TestSQSRequestsOfManagedTasks(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	s.lambda(t, sdk.LambdaInfo{Name: "managed"})
	s.work(t, "managed", atOnce, sdk.Slots(100))
	s.succeed(t, s.schedule(t, sdk.Item{Lambda: "managed"}))

	plain := make([]sdk.Item, 500)
	first := time.Now().Add(5 * time.Second)
	for i := range plain { // 100 a second
		plain[i] = sdk.Item{Lambda: "managed", At: first.Add(time.Duration(i) * 10 * time.Millisecond)}
	}
	before := s.now()
	s.succeed(t, s.schedule(t, plain...))
	d := s.now().since(before)
	t.Log(d.requests)
	perTask(t, "plainly: SQS requests", float64(total(d.requests)), len(plain), 0.65)

	burst := items(1000, sdk.Item{Lambda: "managed", In: 3 * time.Second})
	before = s.now()
	s.succeed(t, s.schedule(t, burst...))
	d = s.now().since(before)
	t.Log(d.requests)
	perTask(t, "under load: SQS requests", float64(total(d.requests)), len(burst), 0.2)
}
