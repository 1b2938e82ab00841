// Package remote moves one file between this machine and another over ssh: the
// system's own ssh program carries SFTP (draft-ietf-secsh-filexfer-02, version
// 3) or rsync, with the user's configuration, keys and known hosts.
//
// A transfer never appends to bytes that are not a prefix of the wanted file,
// and gives a file its name only after all of its bytes were hashed at the
// other end. What was cut off stays under <name>.partial; what turned out to be
// other bytes is kept under <name>.candidate-<n>.
package remote

import (
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Scheme begins the address of a file or folder on another machine.
const Scheme = "ssh://"

// MaxPathBytes bounds a path on another machine.
const MaxPathBytes = 4096

// Location is a file or folder on another machine. Nothing in it can be taken
// for an option or a command, by ssh, rsync or the shell at the other end.
type Location struct {
	User string // empty: as the configuration of ssh says
	Host string // a name, an alias of the configuration, or an IP address
	Port string // empty: as the configuration of ssh says
	Path string // absolute and clean, without control characters
}

var (
	hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,252})$`)
	userName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
)

// Parse reads ssh://[user@]host[:port]/path. A password, a query, a fragment
// and a path that is not absolute and clean are errors.
func Parse(address string) (Location, error) {
	bad := func(why string) (Location, error) {
		return Location{}, fmt.Errorf("address %.300q: %s; want ssh://[user@]host[:port]/path", address, why)
	}
	rest, ok := strings.CutPrefix(address, Scheme)
	if !ok {
		return bad("it does not begin with " + Scheme)
	}
	if !utf8.ValidString(rest) || strings.ContainsFunc(rest, unicode.IsControl) {
		return bad("it holds control characters or is not UTF-8")
	}
	u, err := url.Parse(address)
	if err != nil {
		return bad("it cannot be read as an address")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(address, "#") {
		return bad("it has a query or a fragment")
	}
	l := Location{Host: u.Hostname(), Port: u.Port(), Path: u.Path}
	if u.User != nil {
		if _, has := u.User.Password(); has {
			return bad("it holds a password; ssh takes keys")
		}
		if l.User = u.User.Username(); l.User == "" {
			return bad("its user is empty")
		}
	}
	return l, l.check(bad)
}

func (l Location) check(bad func(string) (Location, error)) error {
	why := ""
	port, err := strconv.ParseUint(l.Port, 10, 16)
	switch {
	case !hostName.MatchString(l.Host) && !isIPv6(l.Host):
		why = "its host is no plain host name or IP address"
	case l.User != "" && !userName.MatchString(l.User):
		why = "its user is no plain name"
	case l.Port != "" && (err != nil || port == 0 || l.Port[0] == '0'):
		why = "its port is no number from 1 to 65535"
	case !strings.HasPrefix(l.Path, "/") || len(l.Path) > MaxPathBytes:
		why = "its path is not absolute, or too long"
	case path.Clean(l.Path) != l.Path:
		why = "its path is not clean (no //, ., .. or / at the end)"
	case !utf8.ValidString(l.Path) || strings.ContainsFunc(l.Path, unicode.IsControl):
		why = "its path holds control characters or is not UTF-8"
	}
	if why == "" {
		return nil
	}
	_, err = bad(why)
	return err
}

func isIPv6(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Is6() && ip.Zone() == ""
}

// Join is the location of a file in a folder. The name is a plain one.
func (l Location) Join(name string) Location {
	l.Path = path.Join(l.Path, name)
	return l
}

// String gives the address again.
func (l Location) String() string {
	u := url.URL{Scheme: "ssh", Host: l.Host, Path: l.Path}
	if strings.Contains(l.Host, ":") {
		u.Host = "[" + l.Host + "]"
	}
	if l.Port != "" {
		u.Host += ":" + l.Port
	}
	if l.User != "" {
		u.User = url.User(l.User)
	}
	return u.String()
}
