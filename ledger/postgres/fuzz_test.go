package postgres

import (
	"strings"
	"testing"
)

// FuzzURL reads hostile URLs: no panic, no password in an error or a name, and
// no schema that would have to be quoted.
func FuzzURL(f *testing.F) {
	const secret = "hunter2hunter2"
	for _, rest := range []string{
		":", "@h/d", "@h:5/d?schema=a", "@h/d?schema=A", "@h:x/d", "@/d?host=/run", "", "/d", "?x", "@h/d?sslmode=no", "@h/d?%zz", "@h/d?pool_max_conns=x", "@[::1]:5/d",
		"@h/d?schema=a&schema=b", "%zz@h/d", "@h,i/d", "@h/d?lock_timeout=1", "@h/d?sslcert=/nowhere&sslkey=/nowhere", "@h/d?connect_timeout=-1", "@h/d?default_query_exec_mode=x", "\x00@h/d", "@h/d?service=x",
	} {
		f.Add(rest)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		l, err := parse("postgres://user:" + secret + rest)
		if err != nil {
			if strings.Contains(err.Error(), secret) && !strings.Contains(rest, secret) {
				t.Fatalf("the error repeats the password: %v", err)
			}
			return
		}
		if !schemaForm.MatchString(l.schema) || strings.HasPrefix(l.schema, "pg_") {
			t.Fatalf("schema %q", l.schema)
		}
		if l.config.ConnConfig.RuntimeParams["search_path"] != "pg_catalog" || l.config.ConnConfig.RuntimeParams["row_security"] != "off" {
			t.Fatalf("settings %v", l.config.ConnConfig.RuntimeParams)
		}
		if l.config.ConnConfig.Password != "" && strings.Contains(l.hide("x"+l.config.ConnConfig.Password+"y"), secret) {
			t.Fatal("the password is not hidden")
		}
	})
}
