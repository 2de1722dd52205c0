/* Round trips over loopback as a floor for a broker: a request of some size, a short answer, the next request.
 *
 *   cc -O2 -D_GNU_SOURCE -o echo echo.c
 *   echo REQUEST ANSWER COUNT EPOLL
 *
 * REQUEST and ANSWER are bytes, COUNT round trips are timed. EPOLL 0: the server blocks in read, as a broker with a thread for
 * each connection does. EPOLL 1: the server waits in epoll, as an event loop does. Both sides are processes of their own. The
 * result is one JSON object on stdout.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_BYTES (1 << 20)
#define MAX_COUNT 1000000
#define WARM_UP 1000      /* round trips that are not timed */

static char buffer[MAX_BYTES];

static void die(const char *what) { perror(what); exit(2); }

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void no_delay(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static int receive(int fd, int bytes) { /* 0 at the end of the connection */
    while (bytes > 0) {
        ssize_t n = read(fd, buffer, (size_t)bytes);
        if (n <= 0) return 0;
        bytes -= (int)n;
    }
    return 1;
}

static void send_all(int fd, int bytes) {
    while (bytes > 0) {
        ssize_t n = write(fd, buffer, (size_t)bytes);
        if (n <= 0) die("write");
        bytes -= (int)n;
    }
}

static void serve(int listener, int request, int answer, int with_epoll) {
    int fd = accept(listener, NULL, NULL), poller = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    if (fd < 0 || poller < 0) die("accept");
    no_delay(fd);
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
    for (;;) {
        if (with_epoll && epoll_wait(poller, &event, 1, -1) < 1) die("epoll_wait");
        if (!receive(fd, request)) return;
        send_all(fd, answer);
    }
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    if (argc != 5) { fprintf(stderr, "usage: echo REQUEST ANSWER COUNT EPOLL\n"); return 2; }
    int request = atoi(argv[1]), answer = atoi(argv[2]), count = atoi(argv[3]), with_epoll = atoi(argv[4]);
    if (request < 1 || request > MAX_BYTES || answer < 1 || answer > MAX_BYTES || count < 1 || count > MAX_COUNT) return 2;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1)) die("listen");
    if (getsockname(listener, (struct sockaddr *)&address, &length)) die("getsockname");
    pid_t server = fork();
    if (server < 0) die("fork");
    if (server == 0) { serve(listener, request, answer, with_epoll); _exit(0); }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, length)) die("connect");
    no_delay(fd);
    int64_t *times = malloc((size_t)count * sizeof *times), started = 0;
    if (!times) die("memory");
    for (int i = -WARM_UP; i < count; i++) {
        int64_t sent = now_ns();
        if (i == 0) started = sent;
        send_all(fd, request);
        if (!receive(fd, answer)) die("the server ended");
        if (i >= 0) times[i] = now_ns() - sent;
    }
    double seconds = (double)(now_ns() - started) / 1e9;
    close(fd);
    waitpid(server, NULL, 0);
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    qsort(times, (size_t)count, sizeof *times, by_value);
    printf("{\"per_second\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"server_cpu_us\": %.2f}\n", count / seconds,
           (double)times[count / 2] / 1e3, (double)times[(int64_t)count * 99 / 100] / 1e3, cpu * 1e6 / (count + WARM_UP));
    return 0;
}
