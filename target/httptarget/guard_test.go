package httptarget_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/target/httptarget"
	"github.com/kinesin-io/kinesin/task"
)

func TestWhichAddressesAreCalled(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"93.184.216.34:443": true, "93.184.216.34:80": true, "93.184.216.34:8443": true, "93.184.216.34:22": false, "93.184.216.34:1023": false,
		"0.0.0.0:80": false, "0.1.2.3:80": false, "10.0.0.1:80": false, "100.64.0.1:80": false, "127.0.0.1:80": false, "127.255.255.254:80": false,
		"169.254.169.254:80": false, "172.16.0.1:80": false, "172.32.0.1:80": true, "192.168.1.1:443": false, "192.0.0.8:80": false,
		"198.18.0.1:80": false, "224.0.0.1:80": false, "239.1.1.1:80": false, "240.0.0.1:80": false, "255.255.255.255:80": false, "223.255.255.255:80": true,
		"[2606:2800:220:1::1]:443": true, "[::]:80": false, "[::1]:80": false, "[::ffff:127.0.0.1]:80": false, "[::ffff:93.184.216.34]:80": true,
		"[::127.0.0.1]:80": false, "[64:ff9b::7f00:1]:80": false, "[64:ff9b:1::1]:80": false, "[2001::1]:80": false, "[2001:db8::1]:80": false,
		"[2002:7f00:1::]:80": false, "[fc00::1]:80": false, "[fd00:ec2::254]:80": false, "[fe80::1%eth0]:80": false, "[fec0::1]:80": false, "[ff02::1]:80": false,
		"[5f00::1]:80": false, "[3fff::1]:80": false,
	} {
		if got := (&httptarget.Guard{}).Allows(netip.MustParseAddrPort(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
	allowing := httptarget.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/64")}}
	for address, want := range map[string]bool{"10.1.2.3:22": true, "[::ffff:10.1.2.3]:80": true, "10.2.0.1:80": false, "[fd00::7]:9": true, "[fd00:1::7]:80": false, "1.1.1.1:443": true} {
		if got := allowing.Allows(netip.MustParseAddrPort(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

func TestWhichURLsATargetMayHave(t *testing.T) {
	t.Parallel()
	g := httptarget.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	for url, want := range map[string]bool{
		"http://10.1.2.3/{key}": true, "http://10.2.0.1/{key}": false, "https://10.2.0.1:8443/": false, "http://[::1]:8080/": false, "http://[::ffff:10.2.0.1]/": false,
		"http://93.184.216.34:22/": false, "http://93.184.216.34/": true, "https://[2606:2800:220:1::1]/x?y={key}": true,
		"http://localhost/": true, "http://{key}/": true, "http://10.2.0.{tag.n}/": true, "{key}": true, // known when they are called
	} {
		if err := g.Check(url); (err == nil) != want || err != nil && (!errors.Is(err, task.ErrInvalid) || !errors.Is(err, httptarget.ErrForbidden)) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// Whatever a URL calls an address, the guard sees the address itself.
func TestForgedHosts(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	guarded := httptarget.NewClient(httptarget.Config{Clock: clock.Real(), Guard: &httptarget.Guard{}})
	defer guarded.Close()
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "LOCALHOST.", "2130706433", "0177.0.0.1", "127.1", "0x7f000001", "127.0.0.1.nip.invalid"} {
		r, err := guarded.Runner(task.Target{URL: "http://" + host + ":" + port + "/"})
		if err != nil {
			continue
		}
		e := r.Outcome(t.Context(), attempt())
		if e.Kind == task.OutcomeSuccess || strings.Contains(e.Error, "127.0.0.1:") && !strings.HasPrefix(host, "127.0.0.1") {
			t.Errorf("%s: %+v", host, e)
		}
		if host == "127.0.0.1" && (e.Kind != task.OutcomeFatal || !strings.Contains(e.Error, "--targets-allow")) {
			t.Errorf("%+v", e)
		}
	}
	if n := calls.Load(); n > 0 {
		t.Errorf("%d calls arrived", n)
	}
	allowed := httptarget.NewClient(httptarget.Config{Clock: clock.Real(), Guard: &httptarget.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	defer allowed.Close()
	r, err := allowed.Runner(task.Target{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	if e := r.Outcome(t.Context(), attempt()); e.Kind != task.OutcomeSuccess || calls.Load() != 1 {
		t.Errorf("%+v", e)
	}
}
