package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	defaultSchema  = "weighmaster"
	maxConnections = 8
	connectTimeout = 10 * time.Second
)

// schemaForm leaves out what would have to be quoted, and PostgreSQL's limit of
// 63 bytes, beyond which it cuts names off in silence.
var schemaForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// location is a URL that was read.
type location struct {
	name   string // for errors: without a password
	schema string
	config *pgxpool.Config
	hidden []string // what no error may repeat
}

// parse reads a URL. It connects to nothing.
func parse(raw string) (location, error) {
	const want = "want postgres://user@host:port/database?schema=name, with what is special in a URL percent-encoded"
	u, err := url.Parse(raw)
	if err != nil { // its text repeats the URL
		return location{}, errors.New("ledger/postgres: the URL cannot be read: " + want)
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return location{}, fmt.Errorf("ledger/postgres: a URL of scheme %q: %s", u.Scheme, want)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return location{}, errors.New("ledger/postgres: the URL's parameters cannot be read: " + want)
	}
	l := location{schema: defaultSchema, hidden: secrets(u, query)}
	if names, ok := query["schema"]; ok {
		if len(names) != 1 || !schemaForm.MatchString(names[0]) || strings.HasPrefix(names[0], "pg_") {
			return location{}, fmt.Errorf("ledger/postgres: schema %q, want one name of 1 to 63 lower-case letters, digits and _, which starts with a letter and not with pg_", names)
		}
		l.schema = names[0]
		query.Del("schema")
	}
	u.RawQuery = query.Encode()
	if l.config, err = pgxpool.ParseConfig(u.String()); err != nil {
		// The reason alone: in front of it the URL is repeated.
		_, reason, _ := strings.Cut(err.Error(), "`: ")
		return location{}, fmt.Errorf("ledger/postgres: the URL cannot be used: %s: %s", l.hide(reason), want)
	}
	conn := l.config.ConnConfig
	l.hidden = append(l.hidden, conn.Password)
	l.name = fmt.Sprintf("database %s on %s:%d, schema %s", conn.Database, conn.Host, conn.Port, l.schema)
	if !query.Has("pool_max_conns") {
		l.config.MaxConns = maxConnections
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = connectTimeout
	}
	for parameter, value := range settings {
		if _, ok := conn.RuntimeParams[parameter]; !ok {
			conn.RuntimeParams[parameter] = value
		}
	}
	conn.RuntimeParams["search_path"] = "pg_catalog"    // every name of ours is written with its schema
	conn.RuntimeParams["row_security"] = "off"          // rows that a policy hides are an error
	conn.RuntimeParams["quote_all_identifiers"] = "off" // definitions are compared as text
	return l, nil
}

// settings of a session that the URL may set otherwise.
var settings = map[string]string{
	"application_name":   "weighmaster",
	"synchronous_commit": "on",
	"lock_timeout":       "60s",
	// A writer whose machine is gone lets the head go after this.
	"idle_in_transaction_session_timeout": "60s",
}

// secrets collects every spelling of the passwords that a URL or the environment holds.
func secrets(u *url.URL, query url.Values) []string {
	var list []string
	// A password that was not told apart from a host and a port.
	if _, rest, ok := strings.Cut(u.Host, ":"); ok && strings.Trim(rest, "0123456789") != "" {
		list = append(list, rest, strings.Trim(rest, ":"))
	}
	if password, ok := u.User.Password(); ok {
		list = append(list, password, url.QueryEscape(password), url.PathEscape(password))
		if _, encoded, ok := strings.Cut(u.User.String(), ":"); ok {
			list = append(list, encoded)
		}
	}
	for _, key := range []string{"password", "sslpassword"} {
		for _, value := range query[key] {
			list = append(list, value, url.QueryEscape(value))
		}
	}
	return append(list, os.Getenv("PGPASSWORD"), os.Getenv("PGSSLPASSWORD"))
}

// hide replaces what no error may repeat.
func (l location) hide(text string) string {
	for _, secret := range l.hidden {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "xxxxx")
		}
	}
	return text
}
