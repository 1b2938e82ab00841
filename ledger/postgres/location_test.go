package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestNoErrorRepeatsAPassword gives every way in which a password comes in, and
// everything that goes wrong with a URL or a connection.
func TestNoErrorRepeatsAPassword(t *testing.T) {
	const secret, encoded = "s3cr%t/p@ss w", "s3cr%25t%2Fp%40ss%20w"
	t.Setenv("PGPASSWORD", "")
	for name, url := range map[string]string{
		"not encoded":             "postgres://u:" + secret + "@127.0.0.1:1/db",
		"taken for a port":        "postgres://u:s3cr:",
		"a bad port":              "postgres://u:" + encoded + "@127.0.0.1:port/db",
		"a port out of range":     "postgres://u:" + encoded + "@127.0.0.1:99999/db",
		"another scheme":          "mysql://u:" + encoded + "@127.0.0.1:1/db",
		"no scheme":               "u:" + encoded + "@127.0.0.1:1/db",
		"a bad schema":            "postgres://u:" + encoded + "@127.0.0.1:1/db?schema=Big",
		"a bad sslmode":           "postgres://u:" + encoded + "@127.0.0.1:1/db?sslmode=no",
		"a bad pool":              "postgres://u:" + encoded + "@127.0.0.1:1/db?pool_max_conns=x",
		"as a parameter":          "postgres://u@127.0.0.1:1/db?sslmode=no&password=" + encoded,
		"nobody listens":          "postgres://u:" + encoded + "@127.0.0.1:1/db?connect_timeout=1",
		"no such socket":          "postgres://u:" + encoded + "@/db?host=/nowhere",
		"a broken parameter":      "postgres://u:" + encoded + "@127.0.0.1:1/db?x=%zz",
		"a key and value string":  "host=127.0.0.1 user=u password=" + secret,
		"an encoded one by hand":  "postgres://u:s3cr%25t%2fp%40ss%20w@127.0.0.1:1/db?sslmode=no",
		"in the name of the user": "postgres://u%3A" + encoded + ":" + encoded + "@127.0.0.1:x/db",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := Open(ctx, url)
		cancel()
		if err == nil {
			t.Errorf("%s: opened", name)
			continue
		}
		for _, hidden := range []string{secret, encoded, "s3cr", "p%40ss", "p@ss"} {
			if strings.Contains(err.Error(), hidden) {
				t.Errorf("%s: the error repeats %q: %v", name, hidden, err)
			}
		}
		if !strings.HasPrefix(err.Error(), "ledger/postgres: ") {
			t.Errorf("%s: %v does not say where it comes from", name, err)
		}
	}
}

func TestPasswordOfTheEnvironmentIsHidden(t *testing.T) {
	t.Setenv("PGPASSWORD", "from the environment")
	l, err := parse("postgres://u@127.0.0.1:1/db")
	if err != nil {
		t.Fatal(err)
	}
	if got := l.hide("x from the environment y"); got != "x xxxxx y" {
		t.Errorf("hidden as %q", got)
	}
	if l.config.ConnConfig.Password != "from the environment" {
		t.Error("the environment's password is not used")
	}
	s := &Store{at: l}
	if err := s.fail("connect", errors.New("no: from the environment")); strings.Contains(err.Error(), "environment") {
		t.Errorf("the error repeats it: %v", err)
	}
}

func TestParse(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://u:p@h:5/d":                "database d on h:5, schema weighmaster",
		"postgresql://u@h/d?schema=team_a":    "database d on h:5432, schema team_a",
		"postgres://u@/d?host=/run/pg&port=7": "database d on /run/pg:7, schema weighmaster",
	} {
		l, err := parse(url)
		if err != nil || l.name != want {
			t.Errorf("%s: %q, %v; want %q", url, l.name, err, want)
			continue
		}
		params := l.config.ConnConfig.RuntimeParams
		if params["synchronous_commit"] != "on" || params["lock_timeout"] != "60s" || params["search_path"] != "pg_catalog" || params["row_security"] != "off" || params["schema"] != "" {
			t.Errorf("%s: session settings %v", url, params)
		}
		if l.config.MaxConns != maxConnections || l.config.ConnConfig.ConnectTimeout != connectTimeout {
			t.Errorf("%s: %d connections, time-out %s", url, l.config.MaxConns, l.config.ConnConfig.ConnectTimeout)
		}
	}
	l, err := parse("postgres://u@h/d?lock_timeout=5s&pool_max_conns=3&connect_timeout=2&search_path=evil&row_security=on")
	if err != nil {
		t.Fatal(err)
	}
	conn := l.config.ConnConfig
	if conn.RuntimeParams["lock_timeout"] != "5s" || l.config.MaxConns != 3 || conn.ConnectTimeout != 2*time.Second {
		t.Errorf("what the URL says does not count: %v, %d, %s", conn.RuntimeParams, l.config.MaxConns, conn.ConnectTimeout)
	}
	if conn.RuntimeParams["search_path"] != "pg_catalog" || conn.RuntimeParams["row_security"] != "off" {
		t.Errorf("the URL changes what must not change: %v", conn.RuntimeParams)
	}
}

func TestSchemaNames(t *testing.T) {
	for _, bad := range []string{"", "Team", "1a", "pg_catalog", "pg_x", "a-b", `a"b`, "a b", "ä", "a;drop schema x", strings.Repeat("a", 64), "a&schema=b"} {
		if _, err := parse("postgres://u@h/d?schema=" + bad); err == nil || !strings.Contains(err.Error(), "schema") {
			t.Errorf("schema %q: %v, want it refused", bad, err)
		}
	}
	for _, good := range []string{"a", "team_2", "select", strings.Repeat("a", 63)} {
		if l, err := parse("postgres://u@h/d?schema=" + good); err != nil || l.schema != good {
			t.Errorf("schema %q: %q, %v", good, l.schema, err)
		}
	}
}
