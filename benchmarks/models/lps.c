/* The bare C loop that the simulator's speed is measured against: M/G/1 limited processor sharing.
 *
 * The same algorithm as crates/queueing (virtual time, a heap of finish tags, a FIFO in front of at most r jobs,
 * xoshiro256++ with ziggurat tables of 256 layers), the thesis's demand (21.55 ms + 0.4851 us/B, log-normal sizes),
 * and no statistics but the mean response time. Prints "JOBS SECONDS" (of CPU time) and, on standard error, the mean in ms.
 *
 *     cc -O3 -o lps lps.c -lm && ./lps RHO R JOBS SEED        (./lps 0.8 4 20000000 7)
 */
#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LAYERS 256
#define WAITING_MAX (1u << 20) /* a power of two; more jobs waiting end the run */

typedef struct { uint64_t s[4]; } Random;
typedef struct { double x[LAYERS + 1], density[LAYERS + 1], tail; int normal; } Ziggurat;
typedef struct { double tag, arrived; } Job;

static uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

static uint64_t bits(Random *r) {
    uint64_t *s = r->s, result = rotate(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3]; s[2] ^= t; s[3] = rotate(s[3], 45);
    return result;
}

static Random seeded(uint64_t seed) {
    Random r;
    for (int i = 0; i < 4; i++) { /* splitmix64 */
        uint64_t z = (seed += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        r.s[i] = z ^ (z >> 31);
    }
    return r;
}

static double uniform(Random *r) { return (double)(bits(r) >> 11) * 0x1p-53; }
static double density(int normal, double x) { return exp(normal ? -x * x / 2 : -x); }
static double inverse(int normal, double y) { return normal ? sqrt(-2 * log(y)) : -log(y); }

static void build(Ziggurat *z, int normal, double tail, double area) {
    z->normal = normal; z->tail = tail;
    z->x[0] = area / density(normal, tail); z->x[1] = tail; z->x[LAYERS] = 0;
    for (int i = 2; i < LAYERS; i++)
        z->x[i] = inverse(normal, area / z->x[i - 1] + density(normal, z->x[i - 1]));
    for (int i = 0; i <= LAYERS; i++) z->density[i] = density(normal, z->x[i]);
}

static double beyond(const Ziggurat *z, Random *r, double u) {
    if (!z->normal) return z->tail - log(1 - uniform(r));
    for (;;) {
        double x = log(1 - uniform(r)) / z->tail, y = log(1 - uniform(r));
        if (-2 * y >= x * x) return u < 0 ? x - z->tail : z->tail - x;
    }
}

static double draw(const Ziggurat *z, Random *r) {
    for (;;) {
        uint64_t b = bits(r);
        int i = b & 255;
        double u = (double)(b >> 11) * 0x1p-53;
        if (z->normal) u = 2 * u - 1;
        double x = u * z->x[i];
        if (fabs(x) < z->x[i + 1]) return x;
        if (i == 0) return beyond(z, r, u);
        if (z->density[i] + (z->density[i + 1] - z->density[i]) * uniform(r) < density(z->normal, x)) return x;
    }
}

static Job *heap; /* jobs in service, the least tag first */
static int running;

static void push(Job job) {
    int i = running++;
    for (; i > 0 && heap[(i - 1) / 2].tag > job.tag; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = job;
}

static Job pop(void) {
    Job first = heap[0], last = heap[--running];
    int i = 0;
    for (int child; (child = 2 * i + 1) < running; i = child) {
        if (child + 1 < running && heap[child + 1].tag < heap[child].tag) child++;
        if (heap[child].tag >= last.tag) break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return first;
}

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "error: four arguments are needed\nhint: %s RHO R JOBS SEED\n", arguments[0]);
        return 2;
    }
    double rho = atof(arguments[1]);
    int limit = atoi(arguments[2]);
    long jobs = atol(arguments[3]);
    Random arrivals = seeded((uint64_t)atoll(arguments[4])), demands = seeded(~(uint64_t)atoll(arguments[4]));
    static Ziggurat exponential, normal;
    build(&exponential, 0, 7.69711747013105, 0.003949659822581557);
    build(&normal, 1, 3.654152885361009, 0.004928673233974655);
    double mean = 21.55 + 0.0004851 * exp(7.811 + 1.573 * 1.573 / 2), gap = mean / rho;
    heap = malloc((size_t)limit * sizeof *heap);
    Job *waiting = malloc(WAITING_MAX * sizeof *waiting); /* demand in `tag` until admitted */
    unsigned head = 0, tail = 0;
    double now = 0, virtual = 0, next = gap * draw(&exponential, &arrivals), done = INFINITY, sum = 0;
    struct timespec begun, ended;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begun);
    for (long finished = 0; finished < jobs;) {
        if (next < done) {
            if (running) virtual += (next - now) / running;
            now = next;
            Job job = { 21.55 + 0.0004851 * exp(7.811 + 1.573 * draw(&normal, &demands)), now };
            if (running < limit) { job.tag += virtual; push(job); }
            else if (tail - head == WAITING_MAX) { fprintf(stderr, "error: too many jobs wait\n"); return 1; }
            else waiting[tail++ & (WAITING_MAX - 1)] = job;
            next = now + gap * draw(&exponential, &arrivals);
        } else {
            now = done;
            Job job = pop();
            virtual = job.tag;
            sum += now - job.arrived;
            finished++;
            if (head != tail) {
                Job entering = waiting[head++ & (WAITING_MAX - 1)];
                entering.tag += virtual;
                push(entering);
            }
            if (!running) virtual = 0;
        }
        done = running ? now + (heap[0].tag - virtual) * running : INFINITY;
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
    printf("%ld %.6f\n", jobs, (double)(ended.tv_sec - begun.tv_sec) + 1e-9 * (double)(ended.tv_nsec - begun.tv_nsec));
    fprintf(stderr, "mean response time %.4f ms\n", sum / (double)jobs);
    return 0;
}
