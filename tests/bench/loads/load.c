/* Load generator: producers and consumers over raw OpenWire (version 12, loose, uncached) or STOMP 1.2.
 *
 * One blocking thread per connection. Each message carries its producer, its number and the time it was sent; every consumer
 * checks count and order, so a run that loses, doubles or reorders a message says so. The result is one JSON object on stdout.
 *
 *   cc -O2 -pthread -o load load.c
 *   load PROTOCOL PORT KIND NAME PRODUCERS CONSUMERS SIZE COUNT BATCH PERSISTENT SYNC WINDOW RATE ACKNOWLEDGE HEADERS
 *
 * PROTOCOL openwire|stomp, KIND queue|topic, COUNT messages in all, BATCH frames per write, SYNC 1 waits for the answer to each
 * send, WINDOW messages in flight at most (0: no bound), RATE messages per second in all (0: as fast as it goes), ACKNOWLEDGE
 * auto|individual: the way of STOMP consumers, HEADERS same|numbered: STOMP producers give each message a header of its own.
 * Variables of the environment: LOAD_HOST (127.0.0.1), LOAD_USER and LOAD_PASSWORD,
 * LOAD_CONSUMER_PORT (consumers connect there, to another broker of the same network).
 *
 * The result says how many messages were lost, came twice, came in another order than that of their producer, or were strange:
 * nobody sent them so. Only the first copy of a message counts as received.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MAX_CONNECTIONS 256          /* producers or consumers of one run */
#define STAMP 24                     /* bytes of a body: producer, number, nanoseconds */
#define READ_SIZE (256 * 1024)
#define SILENCE_SECONDS 20           /* without any message: the run is over and counts as lossy */
#define PREFETCH 1000                /* messages that a consumer holds unacknowledged */
#define NUMBER_DIGITS 10             /* of the header that differs for each message */

enum { OPENWIRE, STOMP };
static int protocol, port, consumer_port, is_topic, producers, consumers, size, batch, persistent, synchronous, individual, numbered;
static long count, window, rate;
static const char *name, *host = "127.0.0.1";
static atomic_long received_by[MAX_CONNECTIONS];
static atomic_long received_all, sent_all, reordered, doubled, strange, ready, left, failed;
static _Atomic uint8_t *seen;        /* of a queue: a flag for each number of each producer */
static size_t numbers;               /* of one producer at most */
static int64_t first_send, last_receive;
static int64_t *latencies;
static atomic_long latency_count;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void die(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* -- a growing output buffer ------------------------------------------------------------------------------------------- */
typedef struct { uint8_t *data; size_t length, capacity; } Buffer;

static void put(Buffer *b, const void *data, size_t length) {
    if (b->length + length > b->capacity) {
        b->capacity = (b->length + length) * 2;
        b->data = realloc(b->data, b->capacity);
        if (!b->data) die("memory");
    }
    memcpy(b->data + b->length, data, length);
    b->length += length;
}
static void put8(Buffer *b, int v) { uint8_t c = (uint8_t)v; put(b, &c, 1); }
static void put16(Buffer *b, int v) { uint16_t c = htons((uint16_t)v); put(b, &c, 2); }
static void put32(Buffer *b, uint32_t v) { uint32_t c = htonl(v); put(b, &c, 4); }
static void put64(Buffer *b, uint64_t v) { put32(b, (uint32_t)(v >> 32)); put32(b, (uint32_t)v); }
static void put_string(Buffer *b, const char *s) { put8(b, 1); put16(b, (int)strlen(s)); put(b, s, strlen(s)); }
static void put_text_or_null(Buffer *b, const char *s) { if (s) put_string(b, s); else put8(b, 0); }
static void put_zeros(Buffer *b, int n) { while (n--) put8(b, 0); }
static void patch32(Buffer *b, size_t at, uint32_t v) { uint32_t c = htonl(v); memcpy(b->data + at, &c, 4); }

static uint32_t get32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return ntohl(v); }
static uint64_t get64(const uint8_t *p) { return ((uint64_t)get32(p) << 32) | get32(p + 4); }

/* -- sockets ----------------------------------------------------------------------------------------------------------- */
static int dial(int port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    struct timeval silence = {.tv_sec = SILENCE_SECONDS};
    char service[8];
    int fd, on = 1;
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(host, service, &hints, &found)) { fprintf(stderr, "load: no address for %s\n", host); exit(2); }
    fd = socket(found->ai_family, SOCK_STREAM, 0);
    if (connect(fd, found->ai_addr, found->ai_addrlen)) die("connect");
    freeaddrinfo(found);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
    return fd;
}
static void write_all(int fd, const uint8_t *data, size_t length) {
    while (length) {
        ssize_t n = write(fd, data, length);
        if (n <= 0) die("write");
        data += n;
        length -= (size_t)n;
    }
}
static void flush(int fd, Buffer *b) { write_all(fd, b->data, b->length); b->length = 0; }

typedef struct { int fd; uint8_t *data; size_t start, end, capacity; } Reader;

static int fill(Reader *r) { /* 0 at end or silence */
    if (r->start) {
        memmove(r->data, r->data + r->start, r->end - r->start);
        r->end -= r->start;
        r->start = 0;
    }
    if (r->capacity - r->end < READ_SIZE) {
        r->capacity = r->capacity * 2 + READ_SIZE;
        r->data = realloc(r->data, r->capacity);
        if (!r->data) die("memory");
    }
    ssize_t n = read(r->fd, r->data + r->end, r->capacity - r->end);
    if (n <= 0) return 0;
    r->end += (size_t)n;
    return 1;
}

/* The next OpenWire frame without its size, or NULL at the end. */
static uint8_t *openwire_frame(Reader *r, size_t *length, int may_read) {
    for (;;) {
        if (r->end - r->start >= 4) {
            size_t n = get32(r->data + r->start);
            if (r->end - r->start >= 4 + n) {
                uint8_t *frame = r->data + r->start + 4;
                r->start += 4 + n;
                *length = n;
                return frame;
            }
        }
        if (!may_read || !fill(r)) return NULL;
    }
}

/* The next STOMP frame: its head (terminated in place), its body and length. */
static char *stomp_frame(Reader *r, uint8_t **body, size_t *body_length, int may_read) {
    for (;;) {
        while (r->start < r->end && (r->data[r->start] == '\n' || r->data[r->start] == '\r')) r->start++;
        uint8_t *from = r->data + r->start, *end = r->data + r->end;
        uint8_t *blank = r->end > r->start ? memmem(from, (size_t)(end - from), "\n\n", 2) : NULL;
        if (blank) {
            *blank = 0;
            char *header = strstr((char *)from, "\ncontent-length:");
            size_t n = header ? (size_t)atol(header + 16) : 0;
            uint8_t *content = blank + 2;
            if (!header) {
                uint8_t *nul = memchr(content, 0, (size_t)(end - content));
                if (nul) {
                    *body = content;
                    *body_length = (size_t)(nul - content);
                    r->start = (size_t)(nul - r->data) + 1;
                    return (char *)from;
                }
            } else if ((size_t)(end - content) >= n + 1) {
                *body = content;
                *body_length = n;
                r->start = (size_t)(content - r->data) + n + 1;
                return (char *)from;
            }
            *blank = '\n';
        }
        if (!may_read || !fill(r)) return NULL;
    }
}

/* -- OpenWire commands ------------------------------------------------------------------------------------------------- */
static size_t begin(Buffer *b, int type, uint32_t command, int response) {
    size_t at = b->length;
    put32(b, 0);
    put8(b, type);
    put32(b, command);
    put8(b, response);
    return at;
}
static void finish(Buffer *b, size_t at) { patch32(b, at, (uint32_t)(b->length - at - 4)); }
static void put_destination(Buffer *b) { put8(b, 1); put8(b, is_topic ? 101 : 100); put_string(b, name); }

static void wire_format_info(Buffer *b) {
    static const char *flags[] = {"TightEncodingEnabled", "CacheEnabled", "SizePrefixDisabled"};
    static const char *ons[] = {"TcpNoDelayEnabled", "StackTraceEnabled"};
    Buffer p = {0};
    put32(&p, 7);
    for (int i = 0; i < 3; i++) { put16(&p, (int)strlen(flags[i])); put(&p, flags[i], strlen(flags[i])); put8(&p, 1); put8(&p, 0); }
    for (int i = 0; i < 2; i++) { put16(&p, (int)strlen(ons[i])); put(&p, ons[i], strlen(ons[i])); put8(&p, 1); put8(&p, 1); }
    put16(&p, 21); put(&p, "MaxInactivityDuration", 21); put8(&p, 6); put64(&p, 0);
    put16(&p, 12); put(&p, "MaxFrameSize", 12); put8(&p, 6); put64(&p, 1u << 30);
    size_t at = b->length;
    put32(b, 0);
    put8(b, 1);
    put(b, "ActiveMQ", 8);
    put32(b, 12);
    put8(b, 1);
    put32(b, (uint32_t)p.length);
    put(b, p.data, p.length);
    finish(b, at);
    free(p.data);
}

static void await_response(Reader *r, uint32_t command) {
    size_t n;
    for (;;) {
        uint8_t *f = openwire_frame(r, &n, 1);
        if (!f) { atomic_fetch_add(&failed, 1); return; }
        if (f[0] == 31) { fprintf(stderr, "load: the broker answered with an exception\n"); exit(3); }
        if (f[0] == 30 && get32(f + 6) == command) return;
    }
}

static void openwire_login(Reader *r, Buffer *b, const char *id) {
    wire_format_info(b);
    size_t at = begin(b, 3, 1, 1);
    put8(b, 1); put8(b, 120); put_string(b, id);
    put_string(b, id);
    put_text_or_null(b, getenv("LOAD_PASSWORD"));
    put_text_or_null(b, getenv("LOAD_USER"));
    put_zeros(b, 1);          /* brokerPath */
    put_zeros(b, 5);          /* brokerMasterConnector, manageable, clientMaster, faultTolerant, failoverReconnect */
    put_zeros(b, 1);          /* clientIp */
    finish(b, at);
    flush(r->fd, b);
    await_response(r, 1);
    at = begin(b, 4, 2, 0);
    put8(b, 1); put8(b, 121); put_string(b, id); put64(b, 1);
    finish(b, at);
}

static void put_producer(Buffer *b, const char *id) { put8(b, 1); put8(b, 123); put_string(b, id); put64(b, 1); put64(b, 1); }
static void put_consumer(Buffer *b, const char *id) { put8(b, 1); put8(b, 122); put_string(b, id); put64(b, 1); put64(b, 1); }


static void openwire_message(Buffer *b, const char *id, uint8_t *body, size_t *sequence_offset, size_t *body_offset) {
    size_t at = begin(b, 24, 10, synchronous);
    put_producer(b, id);
    put_destination(b);
    put_zeros(b, 2);                       /* transactionId, originalDestination */
    put8(b, 1); put8(b, 110); put8(b, 0);  /* messageId, textView */
    put_producer(b, id);
    *sequence_offset = b->length;
    put64(b, 0);
    put64(b, 0);
    put_zeros(b, 2);                       /* originalTransactionId, groupID */
    put32(b, 0);
    put8(b, 0);                            /* correlationId */
    put8(b, persistent);
    put64(b, 0);
    put8(b, 4);
    put8(b, 0);                            /* replyTo */
    put64(b, (uint64_t)time(NULL) * 1000);
    put8(b, 0);                            /* type */
    put8(b, 1); put32(b, (uint32_t)size);
    *body_offset = b->length;
    put(b, body, (size_t)size);
    put_zeros(b, 4);                       /* properties, dataStructure, targetConsumerId, compressed */
    put32(b, 0);
    put8(b, 0);                            /* brokerPath */
    put64(b, 0);
    put_zeros(b, 4);                       /* userID, receivedByDFBridge, droppable, cluster */
    put64(b, 0); put64(b, 0);
    put8(b, 0);
    finish(b, at);
}

/* Step over one nested object of the types that stand before a message's id and body. */
static const uint8_t *skip_string(const uint8_t *p) { return *p ? p + 3 + (p[1] << 8 | p[2]) : p + 1; }
static const uint8_t *skip_object(const uint8_t *p) {
    if (!*p) return p + 1;
    int type = p[1];
    p += 2;
    if (type == 100 || type == 101 || type == 120) return skip_string(p);
    if (type == 121) return skip_string(p) + 8;
    if (type == 122 || type == 123) return skip_string(p) + 16;
    if (type == 110) return skip_object(skip_string(p)) + 16;
    fprintf(stderr, "load: unexpected structure %d\n", type);
    exit(3);
}

static const uint8_t *dispatch_parts(const uint8_t *f, const uint8_t **id, size_t *id_length) {
    const uint8_t *p = skip_object(skip_object(f + 6));     /* consumerId, destination */
    p += 2 + 5;                                             /* message: non-null, type, commandId, responseRequired */
    p = skip_object(skip_object(skip_object(skip_object(p)))); /* producerId, destination, transactionId, original */
    *id = p;
    p = skip_object(p);
    *id_length = (size_t)(p - *id);
    p = skip_string(skip_object(p)) + 4;                    /* originalTransactionId, groupID, groupSequence */
    p = skip_string(p) + 1 + 8 + 1;                         /* correlationId, persistent, expiration, priority */
    p = skip_object(p) + 8;                                 /* replyTo, timestamp */
    p = skip_string(p);                                     /* type */
    return p + 5;                                           /* content */
}

/* -- consumers --------------------------------------------------------------------------------------------------------- */
typedef struct { int index; pthread_t thread; } Worker;

/* Note a message; what came twice, or is none of ours, does not count as received. */
static void check(int consumer, int64_t *next, const uint8_t *body, size_t length) {
    uint64_t producer = 0, number = 0;
    if (length == (size_t)size) {
        producer = get64(body);
        number = get64(body + 8);
    }
    if (length != (size_t)size || producer >= (uint64_t)(producers ? producers : MAX_CONNECTIONS) || number >= numbers || (size > STAMP && body[size - 1] != 'x')) {
        atomic_fetch_add(&strange, 1);
        return;
    }
    if (is_topic ? (int64_t)number < next[producer] : atomic_exchange(&seen[producer * numbers + number], 1)) {
        atomic_fetch_add(&doubled, 1);
        return;
    }
    if ((int64_t)number < next[producer]) atomic_fetch_add(&reordered, 1);
    else {
        if ((is_topic || consumers == 1) && (int64_t)number != next[producer]) atomic_fetch_add(&reordered, 1);
        next[producer] = (int64_t)number + 1;
    }
    if (latencies) {
        long at = atomic_fetch_add(&latency_count, 1);
        if (at < count * (is_topic ? consumers : 1)) latencies[at] = now_ns() - (int64_t)get64(body + 16);
    }
    atomic_fetch_add(&received_by[consumer], 1);
    atomic_fetch_add(&received_all, 1);
}

static long expected(void) { return is_topic ? count * consumers : count; }
static int complete(int consumer) {
    return is_topic ? atomic_load(&received_by[consumer]) >= count : atomic_load(&received_all) >= expected();
}

static void *consume_openwire(void *argument) {
    int index = ((Worker *)argument)->index;
    char id[64];
    Reader r = {.fd = dial(consumer_port)};
    Buffer b = {0};
    int64_t next[MAX_CONNECTIONS] = {0};
    snprintf(id, sizeof id, "ID:load-c-%d-%d", (int)getpid(), index);
    openwire_login(&r, &b, id);
    size_t at = begin(&b, 5, 3, 1);
    put_consumer(&b, id);
    put8(&b, 0);
    put_destination(&b);
    put32(&b, PREFETCH); put32(&b, 0);
    put8(&b, 1);
    put_zeros(&b, 3);      /* selector, clientId, subscriptionName */
    put_zeros(&b, 4);      /* noLocal, exclusive, retroactive, priority */
    put_zeros(&b, 6);      /* brokerPath, predicate, networkSubscription, optimizedAcknowledge, noRangeAcks, path */
    finish(&b, at);
    flush(r.fd, &b);
    await_response(&r, 3);
    atomic_fetch_add(&ready, 1);
    size_t n;
    while (!complete(index)) {
        uint8_t *f = openwire_frame(&r, &n, 0);
        if (!f) {
            if (b.length) flush(r.fd, &b);
            f = openwire_frame(&r, &n, 1);
        }
        if (!f) break;
        if (f[0] != 21) continue;
        const uint8_t *message_id;
        size_t id_length;
        const uint8_t *body = dispatch_parts(f, &message_id, &id_length);
        check(index, next, body, get32(body - 4));
        at = begin(&b, 22, 11, 0);
        put_destination(&b);
        put8(&b, 0);
        put_consumer(&b, id);
        put8(&b, 2);
        put(&b, message_id, id_length);
        put(&b, message_id, id_length);
        put32(&b, 1);
        put8(&b, 0);
        finish(&b, at);
    }
    last_receive = now_ns();
    if (b.length) flush(r.fd, &b);
    atomic_fetch_add(&left, 1);
    return NULL; /* all connections end together: nobody gets what another one has acknowledged last */
}

static void stomp_login(Reader *r, Buffer *b) {
    const char *user = getenv("LOAD_USER"), *password = getenv("LOAD_PASSWORD");
    char frame[512];
    int length = snprintf(frame, sizeof frame, "CONNECT\naccept-version:1.2\nhost:/\n");
    if (user && password)
        length += snprintf(frame + length, sizeof frame - length, "login:%s\npasscode:%s\n", user, password);
    put(b, frame, length);
    put(b, "\n", 2);
    flush(r->fd, b);
    uint8_t *body;
    size_t n;
    char *head = stomp_frame(r, &body, &n, 1);
    if (!head || strncmp(head, "CONNECTED", 9)) die("STOMP login");
}

/* Acknowledge the message with this head. */
static void put_acknowledgement(Buffer *b, const char *head) {
    const char *id = strstr(head, "\nack:");
    if (!id) { fprintf(stderr, "load: a message without the header ack\n"); exit(3); }
    put(b, "ACK\nid:", 7);
    put(b, id + 5, strcspn(id + 5, "\r\n"));
    put(b, "\n\n", 3);
}

static void *consume_stomp(void *argument) {
    int index = ((Worker *)argument)->index;
    Reader r = {.fd = dial(consumer_port)};
    Buffer b = {0};
    char text[512], credit[64];
    int64_t next[MAX_CONNECTIONS] = {0};
    uint8_t *body;
    size_t n;
    stomp_login(&r, &b);
    /* Artemis counts bytes, and gets none back from consumers that do not acknowledge. */
    snprintf(credit, sizeof credit, "consumer-window-size:%d\n", individual ? PREFETCH * size : -1);
    int length = snprintf(text, sizeof text, "SUBSCRIBE\nid:1\ndestination:/%s/%s\nack:%s\nreceipt:s\n"
                          "activemq.prefetchSize:%d\nprefetch-count:%d\n%s\n",
                          is_topic ? "topic" : "queue", name, individual ? "client-individual" : "auto", PREFETCH, PREFETCH,
                          credit);
    put(&b, text, (size_t)length + 1);
    flush(r.fd, &b);
    char *head;
    do head = stomp_frame(&r, &body, &n, 1); while (head && strncmp(head, "RECEIPT", 7));
    atomic_fetch_add(&ready, 1);
    while (!complete(index)) {
        head = stomp_frame(&r, &body, &n, 0);
        if (!head) {
            if (b.length) flush(r.fd, &b);
            head = stomp_frame(&r, &body, &n, 1);
        }
        if (!head) break;
        if (!strncmp(head, "MESSAGE", 7)) {
            check(index, next, body, n);
            if (individual) put_acknowledgement(&b, head);
        } else if (!strncmp(head, "ERROR", 5)) { fprintf(stderr, "load: %s\n", head); exit(3); }
    }
    last_receive = now_ns();
    if (b.length) flush(r.fd, &b);
    atomic_fetch_add(&left, 1);
    return NULL; /* all connections end together: nobody gets what another one has acknowledged last */
}

/* -- producers --------------------------------------------------------------------------------------------------------- */
static void stamp(uint8_t *body, int producer, long number) {
    Buffer b = {.data = body, .capacity = STAMP};
    put64(&b, (uint64_t)producer);
    put64(&b, (uint64_t)number);
    put64(&b, (uint64_t)now_ns());
}

static long slowest(void) {
    if (!is_topic) return atomic_load(&received_all);
    long least = atomic_load(&received_by[0]);
    for (int i = 1; i < consumers; i++) if (atomic_load(&received_by[i]) < least) least = atomic_load(&received_by[i]);
    return least;
}

static void pace(long sent_here, int64_t started) {
    while (window && consumers && atomic_load(&sent_all) - slowest() > window) {
        struct timespec t = {.tv_nsec = 50000};
        if (atomic_load(&failed)) return;
        nanosleep(&t, NULL);
    }
    if (rate) {
        int64_t due = started + sent_here * 1000000000 / (rate / producers), now = now_ns();
        if (due > now) {
            struct timespec t = {.tv_sec = (due - now) / 1000000000, .tv_nsec = (due - now) % 1000000000};
            nanosleep(&t, NULL);
        }
    }
}

static void *produce(void *argument) {
    int index = ((Worker *)argument)->index;
    char id[64], head[256];
    Reader r = {.fd = dial(port)};
    Buffer b = {0}, frame = {0};
    uint8_t *body = calloc(1, (size_t)size + 1), *answer;
    size_t n, number_at = 0, content_at = 0;
    long share = count / producers + (index < count % producers ? 1 : 0);
    memset(body, 'x', (size_t)size);
    snprintf(id, sizeof id, "ID:load-p-%d-%d", (int)getpid(), index);
    if (protocol == OPENWIRE) {
        openwire_login(&r, &b, id);
        size_t at = begin(&b, 6, 3, 1);
        put_producer(&b, id);
        put_destination(&b);
        put_zeros(&b, 2);
        put32(&b, 0);
        finish(&b, at);
        flush(r.fd, &b);
        await_response(&r, 3);
        openwire_message(&frame, id, body, &number_at, &content_at);
    } else {
        stomp_login(&r, &b);
        int length = snprintf(head, sizeof head, "SEND\ndestination:/%s/%s\n%s%scontent-length:%d\n%s\n", is_topic ? "topic" : "queue",
                              name, persistent ? "persistent:true\n" : "", synchronous ? "receipt:r\n" : "", size,
                              numbered ? "number:0000000000\n" : "");
        put(&frame, head, (size_t)length);
        content_at = frame.length;
        put(&frame, body, (size_t)size + 1);
        frame.data[frame.length - 1] = 0;
    }
    while (atomic_load(&ready) < consumers) usleep(1000);
    int64_t started = now_ns();
    if (index == 0) first_send = started;
    for (long i = 0; i < share; i++) {
        if (i % batch == 0) pace(i, started);
        stamp(frame.data + content_at, index, i);
        if (protocol == OPENWIRE) {
            Buffer number = {.data = frame.data + number_at, .capacity = 8};
            put64(&number, (uint64_t)i + 1);
        } else if (numbered) {
            char number[NUMBER_DIGITS + 1];
            snprintf(number, sizeof number, "%0*ld", NUMBER_DIGITS, i);
            memcpy(frame.data + content_at - NUMBER_DIGITS - 2, number, NUMBER_DIGITS); /* before two newlines */
        }
        put(&b, frame.data, frame.length);
        atomic_fetch_add(&sent_all, 1);
        if ((i + 1) % batch == 0 || i + 1 == share) flush(r.fd, &b);
        if (synchronous) {
            if (protocol == OPENWIRE) await_response(&r, 10);
            else {
                char *f = stomp_frame(&r, &answer, &n, 1);
                if (!f || strncmp(f, "RECEIPT", 7)) { fprintf(stderr, "load: no receipt: %s\n", f ? f : "silence"); exit(3); }
            }
        }
    }
    if (!consumers) last_receive = now_ns();
    if (protocol == STOMP && !synchronous) { /* a receipt shows that the broker has read it all before we hang up */
        static const char bye[] = "DISCONNECT\nreceipt:bye\n\n";
        write_all(r.fd, (const uint8_t *)bye, sizeof bye);
        stomp_frame(&r, &answer, &n, 1);
    } else if (protocol == OPENWIRE) {
        size_t at = begin(&b, 12, 12, 1);
        put8(&b, 1); put8(&b, 120); put_string(&b, id);
        put64(&b, (uint64_t)-1);
        finish(&b, at);
        flush(r.fd, &b);
        await_response(&r, 12);
    }
    shutdown(r.fd, SHUT_RDWR);
    return NULL;
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    if (argc != 16) {
        fprintf(stderr, "usage: load PROTOCOL PORT KIND NAME PRODUCERS CONSUMERS SIZE COUNT BATCH PERSISTENT SYNC WINDOW RATE ACKNOWLEDGE HEADERS\n");
        return 2;
    }
    protocol = strcmp(argv[1], "stomp") ? OPENWIRE : STOMP;
    port = atoi(argv[2]);
    consumer_port = getenv("LOAD_CONSUMER_PORT") ? atoi(getenv("LOAD_CONSUMER_PORT")) : port;
    is_topic = !strcmp(argv[3], "topic");
    name = argv[4];
    producers = atoi(argv[5]);
    consumers = atoi(argv[6]);
    size = atoi(argv[7]) < STAMP ? STAMP : atoi(argv[7]);
    count = atol(argv[8]);
    batch = atoi(argv[9]);
    persistent = atoi(argv[10]);
    synchronous = atoi(argv[11]);
    window = atol(argv[12]);
    rate = atol(argv[13]);
    individual = !strcmp(argv[14], "individual");
    numbered = !strcmp(argv[15], "numbered");
    if (getenv("LOAD_HOST")) host = getenv("LOAD_HOST");
    if (producers < 0 || producers > MAX_CONNECTIONS || consumers > MAX_CONNECTIONS || batch < 1) return 2;
    if (synchronous) batch = 1;
    numbers = (size_t)(producers ? count / producers + 1 : count); /* who filled a queue before is not known */
    if (consumers && !is_topic) {
        seen = calloc((size_t)(producers ? producers : MAX_CONNECTIONS) * numbers, 1);
        if (!seen) die("memory");
    }
    if (rate) latencies = calloc((size_t)expected(), sizeof *latencies);
    Worker workers[2 * MAX_CONNECTIONS];
    for (int i = 0; i < consumers; i++) {
        workers[i].index = i;
        pthread_create(&workers[i].thread, NULL, protocol == OPENWIRE ? consume_openwire : consume_stomp, &workers[i]);
    }
    while (atomic_load(&ready) < consumers) usleep(1000);
    if (!producers) first_send = now_ns();
    for (int i = 0; i < producers; i++) {
        workers[consumers + i].index = i;
        pthread_create(&workers[consumers + i].thread, NULL, produce, &workers[consumers + i]);
    }
    for (int i = 0; i < producers; i++) pthread_join(workers[consumers + i].thread, NULL);
    while (consumers && !is_topic && atomic_load(&received_all) < expected() && !atomic_load(&failed)) {
        long before = atomic_load(&received_all);
        for (int i = 0; i < SILENCE_SECONDS * 100 && atomic_load(&received_all) < expected() && atomic_load(&left) < consumers; i++) usleep(10000);
        if (atomic_load(&received_all) == before) break;
    }
    int64_t finished = now_ns();
    if (is_topic) {
        for (int i = 0; i < consumers; i++) pthread_join(workers[i].thread, NULL);
        finished = last_receive;
    } else if (consumers && last_receive > first_send) finished = last_receive;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double seconds = (double)(finished - first_send) / 1e9;
    double cpu = (double)usage.ru_utime.tv_sec + usage.ru_utime.tv_usec / 1e6 + (double)usage.ru_stime.tv_sec + usage.ru_stime.tv_usec / 1e6;
    long p50 = 0, p99 = 0, samples = atomic_load(&latency_count);
    if (latencies && samples) {
        qsort(latencies, (size_t)samples, sizeof *latencies, by_value);
        p50 = latencies[samples / 2] / 1000;
        p99 = latencies[samples * 99 / 100] / 1000;
    }
    printf("{\"seconds\": %.6f, \"sent\": %ld, \"received\": %ld, \"lost\": %ld, \"doubled\": %ld, \"reordered\": %ld, \"strange\": %ld, "
           "\"generator_cpu_seconds\": %.3f, \"p50_us\": %ld, \"p99_us\": %ld}\n",
           seconds, atomic_load(&sent_all), atomic_load(&received_all),
           consumers ? expected() - atomic_load(&received_all) : 0L, atomic_load(&doubled), atomic_load(&reordered),
           atomic_load(&strange), cpu, p50, p99);
    return 0;
}
