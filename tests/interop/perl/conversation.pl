# One of everything that Net::Stomp can do; prints what it sees, a line each.
#
#     perl conversation.pl PORT

use strict;
use warnings;
use utf8;
use Net::Stomp;

binmode STDOUT, ":utf8";
$| = 1;
my $queue = "/queue/NET.STOMP";
my %varying = map { $_ => 1 } qw(message-id timestamp session server receipt-id expires);

sub client {
    my $stomp = Net::Stomp->new({ hostname => "127.0.0.1", port => $ARGV[0], reconnect_on_fork => 0 });
    my $connected = $stomp->connect({ login => "user", passcode => "password" });
    show($connected);
    return $stomp;
}

sub show {
    my ($frame) = @_;
    if (!$frame) {
        print "nothing\n";
        return;
    }
    my $headers = $frame->headers;
    my @shown = map { "$_=" . ($varying{$_} ? "*" : $headers->{$_}) } sort keys %$headers;
    my $body = defined $frame->body ? $frame->body : "";
    utf8::decode($body);
    print join(" ", $frame->command, @shown, "[$body]"), "\n";
}

sub receive {
    my ($stomp) = @_;
    return $stomp->receive_frame({ timeout => 15 });
}

my $stomp = client();
for my $number (1 .. 3) {
    my $body = "Größe $number";
    utf8::encode($body);
    print $stomp->send_with_receipt({ destination => $queue, body => $body, number => $number }) ? "sent\n" : "lost\n";
}
print $stomp->send_transactional({ destination => $queue, body => "in a transaction", persistent => "false" })
    ? "committed\n" : "lost\n";
$stomp->subscribe({ destination => $queue, ack => "client", "activemq.prefetchSize" => 1 });
for (1 .. 3) {
    my $frame = receive($stomp);
    show($frame);
    $stomp->ack({ frame => $frame });
}
show(receive($stomp));
$stomp->disconnect;

# The one that was not acknowledged comes again.
$stomp = client();
$stomp->subscribe({ destination => $queue, ack => "auto" });
show(receive($stomp));
$stomp->unsubscribe({ destination => $queue });

my $topic = "/topic/NET.STOMP";
my $listener = client();
$listener->subscribe({ destination => $topic, ack => "auto", selector => "number > 1" });
$listener->send_with_receipt({ destination => "/queue/NET.STOMP.SETTLED", body => "" });
for my $number (1 .. 2) {
    $stomp->send_with_receipt({ destination => $topic, body => "event", number => $number, AMQ_SCHEDULED_DELAY => 0 });
}
show(receive($listener));
$stomp->disconnect;
$listener->disconnect;
